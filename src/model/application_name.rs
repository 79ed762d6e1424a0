//! The application name that a shard sees.

/// What the escapes of a template stand for, as bytes in the encoding of the local database.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// `%a`: application name of the local session.
    pub application_name: Vec<u8>,
    /// `%C`: name of the local cluster.
    pub cluster_name: Vec<u8>,
    /// `%d`: name of the local database.
    pub database: Vec<u8>,
    /// `%u`: user who logged in locally.
    pub user: Vec<u8>,
    /// `%p`: process ID of the local backend.
    pub process_id: i32,
    /// With the process ID, `%c`: start of the local backend in seconds since 1970.
    pub start_time: i64,
}

/// Replaces the escapes of `template`; `%%` is a per cent sign, and an unknown escape, or a `%` at the end, vanishes
/// (as in postgres_fdw.application_name).
pub fn expand(template: &[u8], facts: &Facts) -> Vec<u8> {
    let mut name = Vec::with_capacity(template.len());
    let mut bytes = template.iter();
    while let Some(&byte) = bytes.next() {
        if byte != b'%' {
            name.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'%') => name.push(b'%'),
            Some(b'a') => name.extend_from_slice(&facts.application_name),
            Some(b'C') => name.extend_from_slice(&facts.cluster_name),
            Some(b'd') => name.extend_from_slice(&facts.database),
            Some(b'u') => name.extend_from_slice(&facts.user),
            Some(b'p') => name.extend_from_slice(facts.process_id.to_string().as_bytes()),
            Some(b'c') => name.extend_from_slice(
                format!("{:x}.{:x}", facts.start_time, facts.process_id).as_bytes(),
            ),
            Some(_) | None => {}
        }
    }
    name
}

/// The first of `templates` that does not come out empty.
pub fn choose<'a>(templates: impl IntoIterator<Item = &'a [u8]>, facts: &Facts) -> Option<Vec<u8>> {
    templates
        .into_iter()
        .map(|template| expand(template, facts))
        .find(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            application_name: b"psql".to_vec(),
            cluster_name: b"main".to_vec(),
            database: b"d\xe9p\xf4t".to_vec(),
            user: b"alice".to_vec(),
            process_id: 4711,
            start_time: 0x5f00_1234,
        }
    }

    #[test]
    fn escapes_are_replaced() {
        assert_eq!(
            expand(b"%a/%u@%d %C p%p c%c %%", &facts()),
            b"psql/alice@d\xe9p\xf4t main p4711 c5f001234.1267 %"
        );
        assert_eq!(expand(b"plain", &facts()), b"plain");
    }

    #[test]
    fn unknown_escapes_vanish() {
        assert_eq!(expand(b"a%xb%", &facts()), b"ab");
        assert_eq!(expand(b"%%a", &facts()), b"%a");
    }

    #[test]
    fn an_empty_name_gives_way_to_the_next() {
        let nobody = Facts::default();
        let templates: [&[u8]; 3] = [b"", b"%u%x", b"of the server"];
        assert_eq!(choose(templates, &nobody), Some(b"of the server".to_vec()));
        assert_eq!(choose(templates, &facts()), Some(b"alice".to_vec()));
        assert_eq!(choose([], &facts()), None);
    }
}
