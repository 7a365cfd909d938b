//! A server that is reached over the network: encrypted, with a password.

use super::super::Place;
use super::limits::connected;
use super::server::{DATABASE, ROLE, Server};
use crate::common::{Scratch, blockmill, run};
use crate::follow::node::Node;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Makes a certificate; with an authority signed by that.
fn certificate(folder: &Path, name: &str, subject: &str, more: &[&str]) -> bool {
    let mut command = Command::new("openssl");
    command.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]);
    command.args([
        "-subj",
        subject,
        "-keyout",
        &format!("{name}.key"),
        "-out",
        &format!("{name}.crt"),
    ]);
    command.args(more).current_dir(folder);
    command.output().is_ok_and(|output| output.status.success())
}

#[test]
fn a_server_elsewhere_is_verified_and_gets_a_password() {
    let scratch = Scratch::new();
    let folder = scratch.folder("certificates");
    let is_made = certificate(&folder, "authority", "/CN=authority", &[])
        && certificate(&folder, "stranger", "/CN=stranger", &[])
        && certificate(
            &folder,
            "server",
            "/CN=localhost",
            &[
                "-CA",
                "authority.crt",
                "-CAkey",
                "authority.key",
                "-addext",
                "subjectAltName=DNS:localhost",
                "-addext",
                "basicConstraints=critical,CA:FALSE",
            ],
        );
    if !is_made {
        eprintln!("skipped: no openssl of version 3, which makes certificates");
        return;
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let Some(mut server) = Server::start_with(&["listen_addresses='127.0.0.1'", &format!("port={port}")]) else {
        return;
    };
    server.crash();
    server.take_file("server.crt", &std::fs::read(folder.join("server.crt")).unwrap());
    server.take_file("server.key", &std::fs::read(folder.join("server.key")).unwrap());
    server.take_file(
        "pg_hba.conf",
        b"local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\nhostnossl all all 127.0.0.1/32 reject\n",
    );
    server.add_settings(&["ssl=on"]);
    server.start_again();
    drop(server.superuser());
    let place = Place::new(&scratch);
    Node::new(&place.blocks, 2);
    let mut connect = blockmill();
    connect
        .args(["connect", "--network", "regtest", "--blocks"])
        .arg(&place.blocks);
    run(connect.arg("--data").arg(&place.data)).ends_with(0);
    let passwords = scratch.write(
        "passwords",
        format!("localhost:{port}:{DATABASE}:{ROLE}:secret\n").as_bytes(),
    );
    std::fs::set_permissions(&passwords, PermissionsExt::from_mode(0o600)).unwrap();
    let mirror = |host: &str, parameters: &str, variables: &[(&str, &str)]| {
        let mut command = blockmill();
        command.arg("mirror").arg("--data").arg(&place.data);
        command.args([
            "--to",
            &format!("postgresql://{ROLE}@{host}:{port}/{DATABASE}?{parameters}"),
        ]);
        command.env("HOME", folder.join("nothing")).env_remove("PGPASSFILE");
        run(command.envs(variables.iter().copied()))
    };
    let of_file = [("PGPASSFILE", passwords.to_str().unwrap())];
    let root = |name: &str| format!("sslrootcert={}", folder.join(format!("{name}.crt")).display());
    let (authority, stranger) = (root("authority"), root("stranger"));
    mirror("localhost", &format!("sslmode=verify-full&{authority}"), &of_file).ends_with(0);
    mirror("localhost", "sslmode=require", &[("PGPASSWORD", "secret")]).ends_with(0);
    mirror("localhost", "", &of_file).ends_with(0);
    mirror("localhost", "sslmode=require&channel_binding=require", &of_file).ends_with(0);
    // The server refuses the first attempt, which is not encrypted.
    mirror("localhost", "sslmode=allow", &of_file).ends_with(0);
    // The certificate has another name.
    let by_number = [("PGPASSWORD", "secret")];
    mirror("127.0.0.1", &format!("sslmode=verify-ca&{authority}"), &by_number).ends_with(0);
    mirror("127.0.0.1", &format!("sslmode=verify-full&{authority}"), &by_number)
        .ends_with(4)
        .says(&["certificate"]);
    for mode in ["verify-ca", "verify-full", "require"] {
        mirror("localhost", &format!("sslmode={mode}&{stranger}"), &of_file)
            .ends_with(4)
            .says(&["certificate", "sslrootcert=FILE"]);
    }
    // The server refuses both.
    mirror("localhost", "sslmode=disable", &of_file)
        .ends_with(2)
        .says(&["pg_hba.conf"]);
    let wrong = mirror("localhost", "sslmode=require", &[("PGPASSWORD", "hunter2")]).ends_with(2);
    assert!(!wrong.stderr.contains("hunter2"), "{wrong:?}");
    let without = mirror("localhost", "sslmode=require", &[]);
    assert!(matches!(without.status, 2 | 4), "{without:?}");
    assert!(without.stderr.contains("password"), "{without:?}");
}

/// Runs `openssl` in a folder.
fn openssl(folder: &Path, arguments: &str) -> bool {
    let mut command = Command::new("openssl");
    let output = command.args(arguments.split(' ')).current_dir(folder).output();
    output.is_ok_and(|output| output.status.success())
}

/// `psql` connects with these: it was asked.
#[test]
fn certificates_are_judged_as_by_psql() {
    let scratch = Scratch::new();
    let folder = scratch.folder("certificates");
    let signed = |name: &str, subject: &str, extensions: &str| {
        let asked = format!("req -new -newkey rsa:2048 -nodes -subj {subject} -keyout {name}.key -out {name}.csr");
        let mut signed =
            format!("x509 -req -in {name}.csr -days 2 -CA authority.crt -CAkey authority.key -out {name}.crt");
        if !extensions.is_empty() {
            std::fs::write(folder.join(format!("{name}.ext")), extensions).unwrap();
            signed += &format!(" -extfile {name}.ext");
        }
        openssl(&folder, &asked) && openssl(&folder, &format!("{signed} -CAcreateserial"))
    };
    let is_made = certificate(&folder, "authority", "/CN=authority", &[])
        && certificate(&folder, "itself", "/CN=localhost", &[])
        // As PostgreSQL's documents make it: of version 1, without other names.
        && signed("plain", "/CN=localhost", "")
        && signed("number", "/CN=elsewhere", "subjectAltName=IP:127.0.0.1")
        && signed("named-number", "/CN=elsewhere", "subjectAltName=DNS:127.0.0.1")
        && signed("common-number", "/CN=127.0.0.1", "");
    if !is_made {
        eprintln!("skipped: no openssl of version 3, which makes certificates");
        return;
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let settings = ["listen_addresses='127.0.0.1'", &format!("port={port}")];
    let Some(mut server) = Server::start_with(&settings) else {
        return;
    };
    server.add_settings(&["ssl=on"]);
    server.take_file("pg_hba.conf", b"local all all trust\nhost all all 127.0.0.1/32 trust\n");
    let (place, _) = connected(&scratch);
    for (name, root, host, parameters, status) in [
        ("itself", "itself", "localhost", "sslmode=prefer", 0),
        ("itself", "itself", "localhost", "sslmode=require", 0),
        ("itself", "itself", "localhost", "sslmode=verify-full", 0),
        ("plain", "authority", "localhost", "sslmode=prefer", 0),
        ("plain", "authority", "localhost", "sslmode=verify-ca", 0),
        ("plain", "authority", "localhost", "sslmode=verify-full", 0),
        ("plain", "authority", "127.0.0.1", "sslmode=verify-ca", 0),
        ("plain", "authority", "127.0.0.1", "sslmode=verify-full", 4),
        ("plain", "itself", "localhost", "sslmode=verify-ca", 4),
        ("number", "authority", "127.0.0.1", "sslmode=verify-full", 0),
        ("number", "authority", "localhost", "sslmode=verify-full", 4),
        ("named-number", "authority", "127.0.0.1", "sslmode=verify-full", 0),
        ("common-number", "authority", "127.0.0.1", "sslmode=verify-full", 0),
        ("common-number", "itself", "127.0.0.1", "sslmode=verify-full", 4),
    ] {
        server.crash();
        for end in ["crt", "key"] {
            let bytes = std::fs::read(folder.join(format!("{name}.{end}"))).unwrap();
            server.take_file(&format!("server.{end}"), &bytes);
        }
        server.start_again();
        drop(server.client());
        let root = folder.join(format!("{root}.crt"));
        let mut command = blockmill();
        command
            .arg("mirror")
            .arg("--data")
            .arg(&place.data)
            .env("HOME", folder.join("nothing"));
        let url = format!(
            "postgresql://{ROLE}@{host}:{port}/{DATABASE}?{parameters}&sslrootcert={}",
            root.display()
        );
        let ended = run(command.args(["--to", &url]));
        assert_eq!(ended.status, status, "{name} {host} {parameters}: {ended:?}");
    }
}
