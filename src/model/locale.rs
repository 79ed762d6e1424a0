//! What the default collation of a database stands for: how text is ordered there, and which characters are letters,
//! upper or lower case.

use std::fmt::{self, Display};

/// Locale of a database, as far as it is known, and its encoding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseLocale {
    encoding: String,
    /// None: nobody can tell.
    treatment: Option<Treatment>,
}

/// How text is treated.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Treatment {
    /// `c` for the C library, `i` for ICU, `b` for PostgreSQL itself (`pg_database.datlocprovider`).
    provider: String,
    collate: String,
    ctype: String,
    /// Of the providers `i` and `b`.
    locale: Option<String>,
    rules: Option<String>,
    /// Version of the provider's data at present, whatever it was when the database was made; None if it has no versions.
    version: Option<String>,
}

/// The same as a database's catalogs have it, each as text.
#[derive(Debug, Default)]
pub struct Facts<'a> {
    /// Name of the encoding.
    pub encoding: &'a [u8],
    pub provider: &'a [u8],
    pub collate: &'a [u8],
    pub ctype: &'a [u8],
    pub locale: Option<&'a [u8]>,
    pub rules: Option<&'a [u8]>,
    pub version: Option<&'a [u8]>,
    /// `server_version_num`.
    pub server_version: i32,
}

impl DatabaseLocale {
    pub fn new(facts: &Facts) -> DatabaseLocale {
        DatabaseLocale {
            treatment: Treatment::new(facts),
            ..DatabaseLocale::with_encoding(facts.encoding)
        }
    }

    /// Of this database nothing but the name of its encoding is known.
    pub fn with_encoding(encoding: &[u8]) -> DatabaseLocale {
        DatabaseLocale {
            encoding: String::from_utf8_lossy(encoding).into_owned(),
            treatment: None,
        }
    }

    /// Name of the encoding.
    pub fn encoding(&self) -> &str {
        &self.encoding
    }

    /// Is it known of both how text is treated?
    pub fn is_comparable(&self, other: &DatabaseLocale) -> bool {
        self.treatment.is_some() && other.treatment.is_some()
    }

    /// Is text known to be treated alike in both?
    pub fn is_same(&self, other: &DatabaseLocale) -> bool {
        self.is_comparable(other) && self == other
    }
}

impl Treatment {
    /// None if nobody can tell: PostgreSQL knows a version of the C library's data only where the order of text depends on
    /// them, so that of classes of characters alone is unknown.
    fn new(facts: &Facts) -> Option<Treatment> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let provider = text(facts.provider);
        let is_of_library = provider == "c";
        let collate = canonical(&text(facts.collate));
        let version = facts.version.map(text).filter(|_| {
            // The C library's version says nothing about the order of bytes.
            !is_of_library || !is_plain(&collate)
        });
        let ctype = canonical(&text(facts.ctype));
        let has_data = !is_plain(&collate) || !is_plain(&ctype);
        if is_of_library && has_data && version.is_none() {
            return None;
        }
        Some(Treatment {
            ctype,
            locale: facts.locale.map(text).filter(|_| !is_of_library),
            rules: facts.rules.map(text),
            // PostgreSQL's own tables of characters change with its major versions.
            version: match provider.as_str() {
                "b" => Some(format!(
                    "{}/{}",
                    version.unwrap_or_default(),
                    facts.server_version / 10_000
                )),
                _ => version,
            },
            collate,
            provider,
        })
    }
}

/// One line, different for different locales.
impl Display for DatabaseLocale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part =
            |part: &Option<String>| part.as_ref().map_or("-".into(), |part| format!("{part:?}"));
        f.write_str(&self.encoding)?;
        let Some(treatment) = &self.treatment else {
            return Ok(());
        };
        write!(
            f,
            " {} {:?} {:?} {} {} {}",
            treatment.provider,
            treatment.collate,
            treatment.ctype,
            part(&treatment.locale),
            part(&treatment.rules),
            part(&treatment.version)
        )
    }
}

/// Has the C library no data for this locale that other versions of it have otherwise? As `get_collation_actual_version` sees
/// it.
fn is_plain(locale: &str) -> bool {
    locale == "C" || locale.starts_with("C.")
}

/// One name for a locale of the C library that has several: `en_US.UTF-8` and `en_US.utf8`, C and POSIX.
fn canonical(locale: &str) -> String {
    if locale.eq_ignore_ascii_case("POSIX") || locale.eq_ignore_ascii_case("C") {
        return "C".to_owned();
    }
    match locale.split_once('.') {
        Some((language, codeset)) => {
            let codeset = codeset.replace(['-', '_'], "").to_ascii_lowercase();
            format!("{language}.{codeset}")
        }
        None => locale.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_library<'a>(locale: &'a str, version: Option<&'a str>) -> Facts<'a> {
        Facts {
            encoding: b"UTF8",
            provider: b"c",
            collate: locale.as_bytes(),
            ctype: locale.as_bytes(),
            version: version.map(str::as_bytes),
            server_version: 150_020,
            ..Facts::default()
        }
    }

    fn is_same(one: &Facts, other: &Facts) -> bool {
        let (one, other) = (DatabaseLocale::new(one), DatabaseLocale::new(other));
        assert_eq!(one == other, one.to_string() == other.to_string());
        one.is_same(&other)
    }

    #[test]
    fn names_of_the_c_library_have_spellings() {
        let one = of_library("en_US.UTF-8", Some("2.36"));
        assert!(is_same(&one, &of_library("en_US.utf8", Some("2.36"))));
        assert!(!is_same(&one, &of_library("en_US.UTF-8", Some("2.41"))));
        assert!(!is_same(&one, &of_library("en_US.UTF-8", None)));
        assert!(!is_same(&one, &of_library("en_GB.UTF-8", Some("2.36"))));
        assert!(is_same(
            &of_library("C", None),
            &of_library("POSIX", Some("2.36"))
        ));
        assert!(!is_same(
            &of_library("C", None),
            &of_library("C.UTF-8", None)
        ));
        assert!(is_same(
            &of_library("C.utf8", Some("2.36")),
            &of_library("C.UTF-8", None)
        ));
    }

    #[test]
    fn data_of_an_unknown_version_are_unknown() {
        let of_characters = Facts {
            ctype: b"en_US.UTF-8",
            ..of_library("C", None)
        };
        let known = |facts: &Facts| is_same(facts, facts);
        assert!(!known(&of_characters));
        assert!(!known(&of_library("en_US.UTF-8", None)));
        assert!(known(&of_library("C", None)));
        let unknown = DatabaseLocale::new(&of_characters);
        assert_eq!(unknown, DatabaseLocale::with_encoding(b"UTF8"));
        assert_eq!(unknown.to_string(), unknown.encoding());
    }

    #[test]
    fn all_parts_count() {
        let icu = || Facts {
            provider: b"i",
            locale: Some(b"de"),
            version: Some(b"153.120"),
            ..of_library("C", None)
        };
        assert!(is_same(&icu(), &icu()));
        for other in [
            Facts {
                encoding: b"LATIN1",
                ..icu()
            },
            Facts {
                provider: b"c",
                ..icu()
            },
            Facts {
                locale: Some(b"de-u-co-phonebk"),
                ..icu()
            },
            Facts {
                rules: Some(b"& a < b"),
                ..icu()
            },
            Facts {
                version: Some(b"153.121"),
                ..icu()
            },
            Facts {
                ctype: b"de_DE.UTF-8",
                ..icu()
            },
        ] {
            assert!(!is_same(&icu(), &other), "{other:?}");
        }
        // ICU's data do not come with PostgreSQL, those of its own provider do.
        assert!(is_same(
            &icu(),
            &Facts {
                server_version: 180_000,
                ..icu()
            }
        ));
        let own = |server_version| Facts {
            provider: b"b",
            locale: Some(b"C.UTF-8"),
            version: Some(b"1"),
            server_version,
            ..of_library("C", None)
        };
        assert!(is_same(&own(170_001), &own(170_009)));
        assert!(!is_same(&own(170_001), &own(180_001)));
    }
}
