//! Passwords from a file, as libpq reads them.

use crate::witness::Witness;
use blockmill_chain::Level;
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The lines of a password file. One that others may read is not used.
pub(crate) fn password_lines(path: &Path, witness: &dyn Witness) -> Option<String> {
    let metadata = fs::metadata(path).ok()?;
    if metadata.permissions().mode() & 0o077 != 0 {
        let path = path.display().to_string();
        let text = format!("{path}: others may read it, so its passwords are not used; chmod 600 it");
        witness.line(Level::Warning, "password_file_open", &text, json!({"path": path}));
        return None;
    }
    fs::read_to_string(path).ok()
}

/// The password of a line of a password file, if it is for this host, port, database and user.
pub(crate) fn password_of_line(line: &str, login: [&str; 4]) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            // The password itself may hold colons.
            ':' if fields.len() <= login.len() => fields.push(String::new()),
            '\\' => fields.last_mut()?.extend(characters.next()),
            _ => fields.last_mut()?.push(character),
        }
    }
    let (password, of) = fields.split_last()?;
    let is_for = of.len() == login.len() && of.iter().zip(login).all(|(of, asked)| of == "*" || of == asked);
    is_for.then(|| password.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::witness::Mute;

    #[test]
    fn the_line_of_a_password_file_names_whom_it_is_for() {
        let login = ["db", "5432", "chain", "me"];
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
            password_lines(&path, &Mute)
        };
        assert_eq!(found(0o640), None);
        assert!(found(0o600).is_some());
        assert_eq!(password_lines(&folder.path().join("none"), &Mute), None);
    }
}
