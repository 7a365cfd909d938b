//! The file in which users of PostgreSQL keep passwords, which do not belong on a command line.

use crate::log;
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Whom a password is for: host, port, database and user.
#[derive(Debug, Clone, Copy)]
pub(super) struct Login<'a>(pub(super) [&'a str; 4]);

/// The password that a file has for a login. A file that others may read is passed over.
pub(super) fn password(path: &Path, login: Login<'_>) -> Option<String> {
    let metadata = fs::metadata(path).ok()?;
    if metadata.permissions().mode() & 0o077 != 0 {
        let path = path.display().to_string();
        let text = format!("{path}: others may read it, so its passwords are not used; chmod 600 it");
        log::warning("password_file_open", &text, json!({"path": path}));
        return None;
    }
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| password_of_line(line, login))
}

fn password_of_line(line: &str, login: Login<'_>) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            // The password itself may hold colons.
            ':' if fields.len() <= login.0.len() => fields.push(String::new()),
            '\\' => fields.last_mut()?.extend(characters.next()),
            _ => fields.last_mut()?.push(character),
        }
    }
    let (password, of) = fields.split_last()?;
    let is_for = of.len() == login.0.len() && of.iter().zip(login.0).all(|(of, asked)| of == "*" || of == asked);
    is_for.then(|| password.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_fits_has_the_password() {
        let login = Login(["db", "5432", "chain", "me"]);
        for (line, found) in [
            ("db:5432:chain:me:secret", Some("secret")),
            ("*:*:*:me:a:b", Some("a:b")),
            (r"db:*:*:*:a\:\\b", Some(r"a:\b")),
            ("other:*:*:*:secret", None),
            ("db:5432:chain:you:secret", None),
            ("#db:5432:chain:me:secret", None),
            ("db:5432:chain:me", None),
            ("", None),
        ] {
            assert_eq!(password_of_line(line, login).as_deref(), found, "{line}");
        }
    }

    #[test]
    fn a_file_that_others_may_read_has_no_password() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pgpass");
        fs::write(&path, "*:*:*:*:secret\n").unwrap();
        let found = |mode| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            password(&path, Login(["", "", "", ""]))
        };
        assert_eq!(found(0o640), None);
        assert_eq!(found(0o600).as_deref(), Some("secret"));
        assert_eq!(password(&folder.path().join("none"), Login(["", "", "", ""])), None);
    }
}
