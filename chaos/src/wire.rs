//! Records of the topics, read field by field.
//!
//! The product's own conversions are what is under test; so the checker knows the numbers of the fields from
//! `proto/rollcall/v1` and reads the bytes itself. It reads what it compares and passes over the rest.

/// A moment of a region's history: the incarnation's ordinal and the revision.
pub type At = (u16, u64);

/// One change of a delta.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The instance.
    pub id: String,
    /// Its epoch.
    pub epoch: u64,
    /// When.
    pub revision: u64,
    /// Whether it is there from then on.
    pub is_put: bool,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// Changes from one moment to another.
    Delta {
        /// Whose.
        region: String,
        /// The end of the change before.
        from: At,
        /// The end.
        to: At,
        /// What changed.
        changes: Vec<Change>,
    },
    /// Nothing new up to a moment, and what is true then.
    Bookmark {
        /// Whose.
        region: String,
        /// The end of the last change.
        from: At,
        /// The moment.
        to: At,
        /// How many there are.
        count: u64,
        /// The state's digest.
        digest: String,
    },
    /// A page of a complete state.
    Page {
        /// Whose.
        region: String,
        /// Of which moment.
        at: At,
        /// How many there are on all pages.
        count: u64,
        /// The whole state's digest.
        digest: String,
        /// Which page, from 0.
        page: u64,
        /// Of how many.
        pages: u64,
        /// Ids and epochs.
        records: Vec<(String, u64)>,
    },
}

#[derive(Clone, Copy)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Reads a record of a feed; nothing when it is none.
#[must_use]
pub fn feed(body: &[u8]) -> Option<Said> {
    let (tag, field) = fields(body)?.into_iter().next()?;
    let fields = fields(bytes(field)?)?;
    let region = text(&fields, 1)?;
    let (from, to) = (position(one(&fields, 2)?)?, position(one(&fields, 3)?)?);
    match tag {
        1 => {
            let changes = fields.iter().filter(|(tag, _)| *tag == 4).map(|(_, field)| change(*field));
            Some(Said::Delta { region, from, to, changes: changes.collect::<Option<_>>()? })
        }
        2 => Some(Said::Bookmark {
            region,
            from,
            to,
            count: number(&fields, 4),
            digest: hex(bytes(one(&fields, 5)?)?),
        }),
        _ => None,
    }
}

/// Reads a record of a snapshot topic; nothing when it is none.
#[must_use]
pub fn page(body: &[u8]) -> Option<Said> {
    let all = fields(body)?;
    let head = fields(bytes(one(&all, 1)?)?)?;
    let record = |(_, field): &(u32, Field<'_>)| {
        let fields = fields(bytes(*field)?)?;
        Some((text(&self::fields(bytes(one(&fields, 1)?)?)?, 1)?, number(&fields, 2)))
    };
    let records = all.iter().filter(|(tag, _)| *tag == 5).map(record);
    Some(Said::Page {
        region: text(&head, 1)?,
        at: position(one(&head, 2)?)?,
        count: number(&head, 3),
        digest: hex(bytes(one(&head, 4)?)?),
        page: number(&all, 2),
        pages: number(&all, 3),
        records: records.collect::<Option<_>>()?,
    })
}

fn change(field: Field<'_>) -> Option<Change> {
    let (tag, inner) = fields(bytes(field)?)?.into_iter().next()?;
    let fields = fields(bytes(inner)?)?;
    match tag {
        1 => Some(Change {
            id: text(&self::fields(bytes(one(&fields, 1)?)?)?, 1)?,
            epoch: number(&fields, 2),
            revision: number(&fields, 4),
            is_put: true,
        }),
        2 => Some(Change {
            id: text(&fields, 1)?,
            epoch: number(&fields, 2),
            revision: number(&fields, 7),
            is_put: false,
        }),
        _ => None,
    }
}

fn position(field: Field<'_>) -> Option<At> {
    let fields = fields(bytes(field)?)?;
    let incarnation = text(&fields, 1)?;
    Some((incarnation.split('-').next()?.parse().ok()?, number(&fields, 2)))
}

fn fields(mut rest: &[u8]) -> Option<Vec<(u32, Field<'_>)>> {
    let mut all = Vec::new();
    while !rest.is_empty() {
        let key = varint(&mut rest)?;
        let tag = u32::try_from(key >> 3).ok()?;
        let field = match key & 7 {
            0 => Field::Number(varint(&mut rest)?),
            1 => Field::Bytes(take(&mut rest, 8)?),
            2 => {
                let length = usize::try_from(varint(&mut rest)?).ok()?;
                Field::Bytes(take(&mut rest, length)?)
            }
            5 => Field::Bytes(take(&mut rest, 4)?),
            _ => return None,
        };
        all.push((tag, field));
    }
    Some(all)
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(rest, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn one<'a>(fields: &[(u32, Field<'a>)], tag: u32) -> Option<Field<'a>> {
    fields.iter().rfind(|(known, _)| *known == tag).map(|(_, field)| *field)
}

fn bytes(field: Field<'_>) -> Option<&[u8]> {
    match field {
        Field::Bytes(bytes) => Some(bytes),
        Field::Number(_) => None,
    }
}

/// What is not written is nothing.
fn number(fields: &[(u32, Field<'_>)], tag: u32) -> u64 {
    match one(fields, tag) {
        Some(Field::Number(number)) => number,
        Some(Field::Bytes(_)) | None => 0,
    }
}

fn text(fields: &[(u32, Field<'_>)], tag: u32) -> Option<String> {
    String::from_utf8(bytes(one(fields, tag)?)?.to_vec()).ok()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
