//! From a server's configuration to its command line, the same for every backend.

use std::collections::BTreeMap;

use crate::ports::backend::{BackendError, ServerProgram, ServerSpec};

/// Decided by the backend: the journal, clean-up and readiness rest on them.
const RESERVED: &[&str] =
    &["port", "bind", "dir", "daemonize", "logfile", "pidfile", "supervised", "set-proc-title"];

/// The same of a PostgreSQL.
const RESERVED_ROWS: &[&str] = &[
    "port",
    "listen_addresses",
    "unix_socket_directories",
    "cluster_name",
    "data_directory",
    "dynamic_shared_memory_type",
    "external_pid_file",
];

/// What a lab server has unless the scenario says otherwise: nothing on disk, so that a restart is
/// an empty server, and so that a background save never competes with what is measured.
const DEFAULTS: &[(&str, &str)] = &[("save", ""), ("appendonly", "no")];

/// A PostgreSQL is as it comes, which is with everything on disk before it is told, but for these: room for the
/// connections of several cells, and a time zone that is compiled in.
const DEFAULTS_ROWS: &[(&str, &str)] =
    &[("max_connections", "200"), ("timezone", "GMT"), ("log_timezone", "GMT")];

/// `--name value …` for the configuration of a server. `fixed` are the backend's own settings, `folder` is
/// the server's own as it sees it.
pub fn of(spec: &ServerSpec, folder: &str, fixed: &[(&str, &str)]) -> Result<Vec<String>, BackendError> {
    check_name("server", &spec.name)
        .map_err(|why| BackendError::StartFailed { server: spec.name.clone(), why })?;
    if spec.program == ServerProgram::Postgres && spec.clock.is_some() {
        return Err(BackendError::Unsupported("the clock of a PostgreSQL cannot be set apart".to_owned()));
    }
    let (reserved, defaults) = match spec.program {
        ServerProgram::Server => (RESERVED, DEFAULTS),
        ServerProgram::Sentinel => (RESERVED, [].as_slice()),
        ServerProgram::Postgres => (RESERVED_ROWS, DEFAULTS_ROWS),
    };
    if let Some(name) = spec.config.keys().find(|k| reserved.contains(&k.to_lowercase().as_str())) {
        let why = format!("its configuration sets '{name}', which the backend decides; remove it");
        return Err(BackendError::StartFailed { server: spec.name.clone(), why });
    }
    let mut settings: BTreeMap<&str, &str> = defaults.iter().chain(fixed).copied().collect();
    settings.extend(spec.config.iter().map(|(k, v)| (k.as_str(), v.as_str())));
    if spec.program == ServerProgram::Postgres {
        return Ok(settings.into_iter().flat_map(|(k, v)| ["-c".to_owned(), format!("{k}={v}")]).collect());
    }
    let settings = settings.into_iter().flat_map(|(name, value)| argument(name, value));
    Ok(match spec.program {
        ServerProgram::Server | ServerProgram::Postgres => settings.collect(),
        ServerProgram::Sentinel => {
            let mode = [format!("{folder}/{SENTINEL_FILE}"), "--sentinel".to_owned()];
            mode.into_iter().chain(settings).collect()
        }
    })
}

/// In the folder of a sentinel, which does not start without a file that it can write to: there it keeps
/// what it was told to watch.
pub const SENTINEL_FILE: &str = "sentinel.conf";

/// A value of several words is several arguments: servers from 7.0 on take one argument for one
/// word, however it is quoted.
fn argument(name: &str, value: &str) -> Vec<String> {
    let mut words: Vec<String> = value.split_whitespace().map(str::to_owned).collect();
    if words.is_empty() {
        words.push(String::new());
    }
    words.insert(0, format!("--{name}"));
    words
}

/// Names become parts of container names, folders and labels.
pub fn check_name(what: &str, name: &str) -> Result<(), String> {
    let fine = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let starts = name.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    if starts && name.len() <= 64 && name.chars().all(fine) {
        return Ok(());
    }
    Err(format!("{what} name '{name}' is not of up to 64 letters, digits, '_', '.' and '-'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(config: &[(&str, &str)]) -> ServerSpec {
        let config = config.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        ServerSpec { name: "primary".to_owned(), config, ..ServerSpec::default() }
    }

    #[test]
    fn a_scenario_overrides_a_default() {
        let args =
            of(&spec(&[("appendonly", "yes"), ("maxmemory", "2mb")]), "/data", &[("port", "1")]).unwrap();
        assert_eq!(args, ["--appendonly", "yes", "--maxmemory", "2mb", "--port", "1", "--save", ""]);
    }

    #[test]
    fn a_sentinel_has_a_file_to_write_to() {
        let sentinel = ServerSpec { program: ServerProgram::Sentinel, ..spec(&[]) };
        let args = of(&sentinel, "/data", &[("port", "1")]).unwrap();
        assert_eq!(args, ["/data/sentinel.conf", "--sentinel", "--port", "1"]);
    }

    #[test]
    fn a_database_takes_each_setting_as_one_word() {
        let rows = |config: &[(&str, &str)]| ServerSpec { program: ServerProgram::Postgres, ..spec(config) };
        let args = of(&rows(&[("synchronous_commit", "off")]), "", &[]).unwrap();
        assert_eq!(args[..2], ["-c", "log_timezone=GMT"]);
        assert!(args.contains(&"synchronous_commit=off".to_owned()) && !args.iter().any(|a| a == "--save"));
        assert!(of(&rows(&[("Listen_Addresses", "*")]), "", &[]).is_err());
    }

    #[test]
    fn words_become_arguments() {
        let value = "pubsub 1mb 1mb 60";
        assert_eq!(
            argument("client-output-buffer-limit", value),
            ["--client-output-buffer-limit", "pubsub", "1mb", "1mb", "60"]
        );
    }

    #[test]
    fn what_the_backend_decides_is_refused() {
        let error = of(&spec(&[("Port", "7000")]), "/data", &[]).unwrap_err().to_string();
        assert!(error.contains("'Port'") && error.contains("primary"), "{error}");
    }

    #[test]
    fn names_stay_inside_a_folder() {
        assert!(check_name("run", "20250101-abc_1.x").is_ok());
        for bad in ["", "..", "a/b", "-a", "a b"] {
            assert!(check_name("run", bad).is_err(), "{bad}");
        }
    }
}
