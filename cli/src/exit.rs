//! How the program ends: the one table from what happened to the exit code.
//!
//! Promises: scripts tell "you" (2), "not there" (3), "not allowed" (4) and "not now" (5) apart, the same for every
//! verb. It never depends on the words of an answer, only on its status.

/// The end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done,
    /// Anything that no other code names.
    Failed,
    /// A wrong call or bad input: the same call fails again.
    Usage,
    /// What was asked for is not there.
    NotFound,
    /// Refused: not allowed, or somebody else was faster.
    Refused,
    /// Not now: overloaded, away, or no connection. Later it may work.
    Unavailable,
    /// The code of a command that was run.
    Command(u8),
}

impl Exit {
    /// The meaning of an HTTP status.
    pub(crate) const fn of_status(status: u16) -> Self {
        match status {
            200..=299 => Self::Done,
            400 | 405 | 413 | 415 => Self::Usage,
            404 | 410 => Self::NotFound,
            401 | 403 | 409 | 412 | 428 => Self::Refused,
            429 | 502 | 503 | 504 => Self::Unavailable,
            _ => Self::Failed,
        }
    }

    /// The number that the caller's shell sees.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Refused => 4,
            Self::Unavailable => 5,
            Self::Command(code) => code,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_of_the_contract_has_its_exit_code() {
        for (code, statuses) in [
            (0, &[200, 201, 202, 204][..]),
            (1, &[301, 418, 500, 501][..]),
            (2, &[400, 405, 413, 415][..]),
            (3, &[404, 410][..]),
            (4, &[401, 403, 409, 412, 428][..]),
            (5, &[429, 502, 503, 504][..]),
        ] {
            for status in statuses {
                assert_eq!(Exit::of_status(*status).code(), code, "status {status}");
            }
        }
    }

    #[test]
    fn a_stable_code_and_its_status_end_alike() {
        for code in rollcall_model::Code::ALL {
            assert_ne!(Exit::of_status(code.status()), Exit::Done, "{}", code.as_str());
        }
    }

    #[test]
    fn a_commands_own_code_is_handed_on() {
        assert_eq!(Exit::Command(143).code(), 143);
    }
}
