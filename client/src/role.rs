//! The two roles, told apart by the compiler: a tool only registers, an agent registers and discovers.
//!
//! Each sets the kind of its declaration itself. [`Registrant`] and [`Registry`] alone are for what is neither: a
//! supervisor that registers on behalf of another program, an orchestrator that only calls.

use std::time::Duration;

use crate::error::StartError;
use crate::options::{RegistrantOptions, RegistryOptions};
use crate::registrant::{Closed, Registrant};
use crate::registry::Registry;
use crate::transport::Wire;

/// A tool: registered, and nothing else. It has no way to a registry.
///
/// ```compile_fail
/// fn discover(tool: &rollcall_client::Tool) {
///     tool.registry();
/// }
/// ```
#[derive(Debug)]
pub struct Tool {
    registrant: Registrant,
}

/// An agent: registered, and able to find others.
///
/// ```
/// fn discover(agent: &rollcall_client::Agent) {
///     agent.registry();
/// }
/// ```
#[derive(Debug)]
pub struct Agent {
    registrant: Registrant,
    registry: Registry,
}

impl Tool {
    /// Starts registering as a tool; returns at once.
    ///
    /// # Errors
    /// As [`Registrant::start`].
    pub fn start(options: RegistrantOptions) -> Result<Self, StartError> {
        Ok(Self { registrant: Registrant::start(of_kind(options, "tool"))? })
    }

    pub(crate) fn over(wire: Wire, options: RegistrantOptions) -> Result<Self, StartError> {
        Ok(Self { registrant: Registrant::over(wire, of_kind(options, "tool"))? })
    }

    /// The tool's registration.
    #[must_use]
    pub const fn registrant(&self) -> &Registrant {
        &self.registrant
    }

    /// Ends it; as [`Registrant::close`].
    pub async fn close(self, budget: Duration) -> Closed {
        self.registrant.close(budget).await
    }
}

impl Agent {
    /// Starts registering as an agent, and following the regions; waits as [`Registry::connect`] does.
    ///
    /// # Errors
    /// As [`Registrant::start`] and [`Registry::connect`].
    pub async fn start(options: RegistrantOptions, discovery: RegistryOptions) -> Result<Self, StartError> {
        let registrant = Registrant::start(of_kind(options, "agent"))?;
        Ok(Self { registrant, registry: Registry::connect(discovery).await? })
    }

    pub(crate) fn over(
        wire: Wire,
        options: RegistrantOptions,
        registry: Registry,
    ) -> Result<Self, StartError> {
        Ok(Self { registrant: Registrant::over(wire, of_kind(options, "agent"))?, registry })
    }

    /// The agent's registration.
    #[must_use]
    pub const fn registrant(&self) -> &Registrant {
        &self.registrant
    }

    /// What the agent finds others with.
    #[must_use]
    pub const fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Ends it; as [`Registrant::close`].
    pub async fn close(self, budget: Duration) -> Closed {
        self.registrant.close(budget).await
    }
}

fn of_kind(mut options: RegistrantOptions, kind: &str) -> RegistrantOptions {
    options.declaration.kind = Some(kind.to_owned());
    options
}
