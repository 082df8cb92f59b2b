//! The three layers and the judgement, as tables: what is set where, and what comes out.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use clap::{Args, FromArgMatches};

use super::*;
use crate::testing::Scratch;

/// What is set in each place, as a person would write it.
#[derive(Default, Clone, Copy)]
struct Given<'a> {
    file: &'a str,
    environment: &'a [(&'a str, &'a str)],
    flags: &'a [&'a str],
}

fn arguments(flags: &[&str]) -> Result<ServeArguments, clap::Error> {
    let command = ServeArguments::augment_args(clap::Command::new("serve").no_binary_name(true));
    ServeArguments::from_arg_matches(&command.try_get_matches_from(flags)?)
}

/// Loads what is given, on a host where CPUs 0 to 3 may be used. The file's path reads FILE in errors.
fn load(given: Given<'_>) -> Result<Loaded, String> {
    let scratch = Scratch::new();
    let mut arguments = arguments(given.flags).map_err(|error| error.to_string())?;
    let path = scratch.path().join("tollgate.toml");
    if !given.file.is_empty() {
        std::fs::write(&path, given.file).unwrap();
        arguments.config_file = Some(path.clone());
    }
    let environment = given.environment.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let result = arguments.load(environment, &[0, 1, 2, 3]);
    result.map_err(|errors| errors.to_string().replace(&path.display().to_string(), "FILE"))
}

fn flags(flags: &[&str]) -> Result<Config, String> {
    load(Given { flags, ..Given::default() }).map(|loaded| loaded.config)
}

/// What a file says, but for its own path.
fn file(file: &str) -> Result<Config, String> {
    load(Given { file, ..Given::default() }).map(|loaded| Config { file: None, ..loaded.config })
}

fn default_config() -> Config {
    flags(&[]).unwrap()
}

#[test]
fn defaults_are_those_of_the_contract() {
    let expected = Config {
        bind: vec![[127, 0, 0, 1].into()],
        port: 6_379,
        unix_socket: None,
        unix_socket_mode: None,
        cores: 4,
        cpus: vec![0, 1, 2, 3],
        dir: None,
        primary: None,
        primary_user: None,
        primary_password: None,
        overshoot_max: None,
        replica_timeout: Duration::from_secs(1),
        replicas_required: 0,
        denies_without_replicas: false,
        cluster: None,
        cluster_node_timeout_ms: 500,
        save_interval: Some(Duration::from_secs(60)),
        admin: Some(([127, 0, 0, 1], 9_121).into()),
        test_clock: false,
        password: None,
        protected_mode: true,
        memory_max_bytes: 0,
        eviction: Eviction::NoEviction,
        clients_max: 10_000,
        idle_timeout: None,
        keepalive: Some(Duration::from_secs(300)),
        bulk_bytes_max: 65_536,
        log_limit_max: 100_000,
        slowlog_log_slower_than: 10_000,
        slowlog_max_len: 128,
        latency_monitor_threshold: 0,
        top_keys: true,
        log_level: LogLevel::Info,
        log_format: LogFormat::Auto,
        file: None,
    };
    assert_eq!(default_config(), expected);
}

#[test]
fn a_flag_wins_over_the_environment_and_that_over_the_file() {
    let file = "port = 1";
    let environment: &[(&str, &str)] = &[("TOLLGATE_PORT", "2")];
    let typed: &[&str] = &["--port", "3"];
    for (given, port) in [
        (Given { file, environment, flags: typed }, 3),
        (Given { file, environment, flags: &[] }, 2),
        (Given { file, environment: &[], flags: typed }, 3),
        (Given { file, environment: &[], flags: &[] }, 1),
        (Given { file: "", environment, flags: typed }, 3),
        (Given { file: "", environment, flags: &[] }, 2),
        (Given { file: "", environment: &[("TOLLGATE_PORT", "")], flags: &[] }, 6_379),
        (Given { file, environment: &[("TOLLGATE_PORT", "")], flags: &[] }, 1),
    ] {
        let loaded = load(given).unwrap();
        assert_eq!(loaded.config.port, port, "{given:?}", given = (given.file, given.environment, given.flags));
        assert_eq!(loaded.notices, Vec::<String>::new());
    }
}

#[test]
fn the_file_that_was_read_is_known_by_its_whole_path() {
    assert_eq!(flags(&[]).unwrap().file, None);
    let path = load(Given { file: "port = 3", ..Given::default() }).unwrap().config.file.unwrap();
    assert!(path.is_absolute() && path.ends_with("tollgate.toml"), "{}", path.display());
}

#[test]
fn a_negative_number_is_a_value_of_its_flag() {
    assert_eq!(flags(&["--slowlog-log-slower-than", "-1"]).unwrap().slowlog_log_slower_than, -1);
}

#[test]
fn a_value_that_another_covers_is_not_judged() {
    let given = Given { file: "port = 99999", environment: &[], flags: &["--port", "3"] };
    assert_eq!(load(given).unwrap().config.port, 3);
}

#[test]
fn each_setting_says_the_same_in_all_three_places() {
    for (key, text, in_file) in [
        ("bind", "127.0.0.1 ::1", "[\"127.0.0.1\", \"::1\"]"),
        ("bind", "10.1.2.3,10.1.2.4", "\"10.1.2.3 10.1.2.4\""),
        ("port", "0", "0"),
        ("unixsocket", "/run/t.sock", "\"/run/t.sock\""),
        ("unixsocketperm", "770", "\"770\""),
        ("requirepass", "s3cret", "\"s3cret\""),
        ("protected-mode", "no", "false"),
        ("maxclients", "7", "7"),
        ("timeout", "60", "60"),
        ("tcp-keepalive", "0", "0"),
        ("proto-max-bulk-len", "128kb", "131072"),
        ("maxmemory", "1gb", "\"1GB\""),
        ("maxmemory-policy", "evict-least", "\"evict-least\""),
        ("log-limit-max", "5000", "5000"),
        ("slowlog-log-slower-than", "-1", "-1"),
        ("slowlog-max-len", "7", "7"),
        ("latency-monitor-threshold", "100", "100"),
        ("top-keys", "no", "false"),
        ("dir", "/var/lib/tollgate", "\"/var/lib/tollgate\""),
        ("cores", "2", "2"),
        ("admin-port", "0", "0"),
        ("admin-bind", "::1", "\"[::1]\""),
        ("test-clock", "yes", "true"),
        ("log-level", "debug", "\"debug\""),
        ("log-format", "json", "\"json\""),
    ] {
        let variable = format!("TOLLGATE_{}", key.to_uppercase().replace('-', "_"));
        let by_flag = flags(&[&format!("--{key}={text}")]).unwrap();
        let by_file = file(&format!("{key} = {in_file}")).unwrap();
        let by_environment = load(Given { environment: &[(&variable, text)], ..Given::default() }).unwrap().config;
        assert_eq!(by_flag, by_file, "{key}");
        assert_eq!(by_flag, by_environment, "{key}");
        assert_ne!(by_flag, default_config(), "{key}");
    }
}

#[test]
fn every_bad_value_says_where_it_is_and_what_is_allowed() {
    for (key, text, allowed) in [
        ("bind", "localhost", "IPv4 and IPv6 addresses"),
        ("port", "65536", "from 0 to 65535"),
        ("port", "-1", "from 0 to 65535"),
        ("port", "http", "from 0 to 65535"),
        ("unixsocketperm", "888", "octal digits from 0 to 777"),
        ("top-keys", "some", "yes or no"),
        ("protected-mode", "maybe", "yes or no"),
        ("maxclients", "0", "from 1 to 1000000"),
        ("maxclients", "1000001", "from 1 to 1000000"),
        ("timeout", "1m", "whole seconds"),
        ("tcp-keepalive", "32768", "from 0 to 32767"),
        ("proto-max-bulk-len", "1023", "from 1kb to 512kb"),
        ("proto-max-bulk-len", "512mb", "from 1kb to 512kb"),
        ("maxmemory", "50%", "bytes, or a whole number with k, kb"),
        ("maxmemory", "99999999999gb", "bytes, or a whole number with k, kb"),
        ("maxmemory-policy", "allkeys-lru", "noeviction or evict-least"),
        ("log-limit-max", "0", "from 1 to 10000000"),
        ("slowlog-log-slower-than", "-2", "-1: none"),
        ("slowlog-max-len", "10001", "from 0 to 10000"),
        ("latency-monitor-threshold", "1ms", "whole milliseconds"),
        ("cores", "0", "from 1 to 256"),
        ("cores", "257", "from 1 to 256"),
        ("admin-port", "70000", "from 0 to 65535"),
        ("admin-bind", "127.0.0.1 ::1", "one IPv4 or IPv6 address"),
        ("test-clock", "2", "yes or no"),
        ("log-level", "loud", "off, error, warn, info, debug or trace"),
        ("log-format", "xml", "auto, text or json"),
    ] {
        let variable = format!("TOLLGATE_{}", key.to_uppercase().replace('-', "_"));
        let quoted = format!("{key} = \"{text}\"");
        for (place, given) in [
            (format!("--{key}"), Given { flags: &[&format!("--{key}={text}")], ..Given::default() }),
            (variable.clone(), Given { environment: &[(&variable, text)], ..Given::default() }),
            (format!("FILE, key {key}"), Given { file: &quoted, ..Given::default() }),
        ] {
            let error = load(given).unwrap_err();
            let expected = format!("{place}: \"{text}\" is not accepted; allowed: ");
            assert!(error.starts_with(&expected) && error.contains(allowed), "{expected} … {allowed}\n{error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }
}

#[test]
fn too_long_paths_and_passwords_are_refused_and_the_password_is_not_shown() {
    let long = "x".repeat(513);
    let error = flags(&["--requirepass", &long, "--unixsocket", &long]).unwrap_err();
    assert!(error.contains("--requirepass: the password is not accepted; allowed: 1 to 512 bytes"), "{error}");
    assert!(error.contains("--unixsocket: \"xxx") && error.contains("at most 107 bytes"), "{error}");
    assert!(!error.contains(&"x".repeat(200)), "{error}");
}

#[test]
fn all_mistakes_of_all_places_are_told_at_once() {
    let error = load(Given {
        file: "cores = 0\nmaxmem = 1\n[bind]\nport = 1\n",
        environment: &[("TOLLGATE_TIMEOUT", "soon")],
        flags: &["--port", "x"],
    })
    .unwrap_err();
    for part in
        ["FILE, key bind: ", "FILE: unknown key \"maxmem\"", "FILE, key cores: ", "TOLLGATE_TIMEOUT: ", "--port: "]
    {
        assert!(error.contains(part), "{part}\n{error}");
    }
    assert_eq!(error.lines().count(), 5, "{error}");
}

#[test]
fn files_that_are_not_settings_are_errors() {
    for (text, part) in [
        ("port 6379", "FILE, line 1: is not TOML: "),
        ("port = 1\n\nrequirepass = \"s3cret\nbind = 1", "FILE, line 3: is not TOML: "),
        ("requirepass = s3cret", "FILE, line 1: is not TOML: "),
        ("requirepass = [\"s3cret\"]", "FILE, key requirepass: a value of this type"),
        ("port = 1\nport = 2", "FILE, line 2: is not TOML: "),
        ("prot = 1", "FILE: unknown key \"prot\"; allowed: bind, port, unixsocket"),
        ("Port = 1", "FILE: unknown key \"Port\""),
        ("config = \"x\"", "FILE: unknown key \"config\""),
        ("port = 1.5", "FILE, key port: a value of this type is not accepted; allowed: a whole number"),
        ("port = [1]", "FILE, key port: a value of this type"),
        ("port = 2020-01-01", "FILE, key port: a value of this type"),
        ("bind = [1]", "FILE, key bind: a value of this type"),
        ("unixsocketperm = 0o640", "FILE, key unixsocketperm: a value of this type"),
        ("unixsocketperm = 640", "in the file in quotes: \"700\""),
        ("port = -1", "FILE, key port: \"-1\" is not accepted"),
    ] {
        let error = file(text).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
        assert!(!error.contains("s3cret"), "{error}");
    }
}

#[test]
fn a_missing_file_is_an_error_wherever_it_is_named() {
    let by_flag = flags(&["--config", "/nonexistent/t.toml"]).unwrap_err();
    assert!(by_flag.starts_with("/nonexistent/t.toml: cannot be read: "), "{by_flag}");
    let by_variable = Given { environment: &[("TOLLGATE_CONFIG", "/nonexistent/u.toml")], ..Given::default() };
    assert!(load(by_variable).unwrap_err().starts_with("/nonexistent/u.toml: cannot be read: "));
}

#[test]
fn a_huge_or_endless_file_is_not_read_whole() {
    assert!(flags(&["--config", "/dev/zero"]).unwrap_err().contains("is longer than"));
}

#[test]
fn values_must_fit_each_other() {
    for (typed, part) in [
        (&["--bind", ""][..], "bind: no address to serve clients on"),
        (&["--bind", "0.0.0.0 127.0.0.1"], "bind: 0.0.0.0 is every address of its family, so 127.0.0.1"),
        (&["--bind", "::", "::1"], "bind: :: is every address of its family, so ::1"),
        (&["--port", "9121"], "admin-port: port 9121 of 127.0.0.1 already serves clients"),
        (&["--bind", "*", "--admin-port", "6379"], "admin-port: port 6379 of 127.0.0.1 already serves clients"),
    ] {
        let error = flags(typed).unwrap_err();
        assert!(error.starts_with(part), "{typed:?}: {error}");
    }
    for typed in [
        &["--bind", "", "--unixsocket", "/run/t.sock"][..],
        &["--bind", "*"],
        &["--bind", "::1", "--admin-port", "6379"],
        &["--admin-port", "0", "--port", "9121"],
    ] {
        flags(typed).unwrap();
    }
}

#[test]
fn flags_are_typed_as_people_type_them() {
    for (typed, check) in [
        (&["--test-clock"][..], (|config| config.test_clock) as fn(&Config) -> bool),
        (&["--test-clock", "--port", "7"], |config| config.test_clock && config.port == 7),
        (&["--test-clock=no"], |config| !config.test_clock),
        (&["--requirepass", "-dash"], |config| config.password.as_ref().is_some_and(|hash| hash.matches(b"-dash"))),
        (&["--requirepass", ""], |config| config.password.is_none()),
        (&["--port", "1", "--port", "2"], |config| config.port == 2),
        (&["--bind", "127.0.0.1", "--bind", "::1"], |config| config.bind.len() == 2),
        (&["--bind", "127.0.0.1", "::1", "--port", "5"], |config| config.bind.len() == 2 && config.port == 5),
    ] {
        assert!(check(&flags(typed).unwrap()), "{typed:?}");
    }
    assert!(flags(&["--prot", "1"]).unwrap_err().contains("unexpected argument"));
    assert!(arguments(&["--check-config"]).unwrap().check_config);
}

#[test]
fn doubtful_settings_are_noticed() {
    let notices = |given| load(given).unwrap().notices.join("\n");
    for (given, part) in [
        (Given { flags: &["--bind", "*"], ..Given::default() }, "only clients on this host are served"),
        (Given { flags: &["--bind", "*", "--protected-mode", "no"], ..Given::default() }, "anybody who reaches"),
        (Given { flags: &["--requirepass", "s3cret"], ..Given::default() }, "prefer TOLLGATE_REQUIREPASS"),
        (Given { environment: &[("TOLLGATE_PROT", "1")], ..Given::default() }, "TOLLGATE_PROT is no setting"),
    ] {
        let text = notices(given);
        assert!(text.contains(part) && !text.contains("s3cret"), "{part}: {text}");
    }
    let quiet = [("TOLLGATE_REQUIREPASS", "s3cret"), ("PORT", "1"), ("TOLLGATE_BIND", "10.0.0.1")];
    assert_eq!(notices(Given { environment: &quiet, ..Given::default() }), "");
}

#[test]
fn variables_of_a_service_that_is_named_like_us_are_passed_over() {
    let environment = [
        ("TOLLGATE_PORT", "tcp://10.0.0.1:6379"),
        ("TOLLGATE_PORT_6379_TCP", "tcp://10.0.0.1:6379"),
        ("TOLLGATE_PORT_6379_TCP_ADDR", "10.0.0.1"),
        ("TOLLGATE_SERVICE_HOST", "10.0.0.1"),
        ("TOLLGATE_SERVICE_PORT", "6379"),
    ];
    let loaded = load(Given { environment: &environment, ..Given::default() }).unwrap();
    assert_eq!((loaded.config, loaded.notices), (default_config(), Vec::new()));
}

#[test]
fn a_variable_that_is_not_text_is_an_error() {
    let environment = [(OsString::from("TOLLGATE_DIR"), OsString::from_vec(vec![0xff]))];
    let error = arguments(&[]).unwrap().load(environment, &[0]).unwrap_err();
    assert_eq!(error.to_string(), "TOLLGATE_DIR: is not valid UTF-8");
}

#[test]
fn the_printed_configuration_gives_the_same_one_again_without_the_password() {
    for typed in [
        &[][..],
        &["--bind", "*", "--port", "0", "--unixsocket", "/tmp/a \"b\".sock", "--unixsocketperm", "640"],
        &["--maxmemory", "1gb", "--maxmemory-policy", "evict-least", "--dir", "/var/lib/x", "--admin-port", "0"],
        &["--timeout", "5", "--tcp-keepalive", "0", "--test-clock", "--protected-mode", "no", "--cores", "3"],
        &["--admin-bind", "::1", "--log-level", "off", "--log-format", "text", "--log-limit-max", "7"],
        &["--maxmemory", "18446744073709551615", "--dir", "1234"],
    ] {
        let config = flags(typed).unwrap();
        assert_eq!(file(&config.to_toml()).as_ref(), Ok(&config), "{}", config.to_toml());
    }
    let text = flags(&["--requirepass", "s3cret"]).unwrap().to_toml();
    assert!(text.contains("# requirepass is set, and not shown\n") && !text.contains("s3cret"), "{text}");
}

#[test]
fn parameters_have_redis_names_and_plain_values() {
    let config = flags(&["--maxmemory", "100mb", "--requirepass", "s3cret", "--bind", "127.0.0.1 ::1"]).unwrap();
    let parameters = config.parameters();
    for (name, value) in [
        ("maxmemory", "104857600"),
        ("maxmemory-policy", "noeviction"),
        ("bind", "127.0.0.1 ::1"),
        ("port", "6379"),
        ("requirepass", ""),
        ("unixsocket", ""),
        ("unixsocketperm", "0"),
        ("dir", ""),
        ("databases", "1"),
        ("appendonly", "no"),
        ("save", ""),
        ("proto-max-bulk-len", "65536"),
        ("protected-mode", "yes"),
        ("tcp-keepalive", "300"),
        ("timeout", "0"),
        ("admin-port", "9121"),
        ("log-limit-max", "100000"),
    ] {
        let found: Vec<&str> = parameters.iter().filter(|pair| pair.0 == name).map(|pair| pair.1.as_str()).collect();
        assert_eq!(found, [value], "{name}");
    }
    for setting in SETTINGS {
        assert!(parameters.iter().any(|pair| pair.0 == setting.key), "{}", setting.key);
    }
}

#[test]
fn nothing_shows_the_password() {
    let typed = arguments(&["--requirepass", "s3cret"]).unwrap();
    let loaded = typed.load([], &[0]).unwrap();
    assert!(loaded.config.password.as_ref().unwrap().matches(b"s3cret"));
    for shown in [format!("{typed:?}"), format!("{loaded:?}"), format!("{:?}", loaded.config.parameters())] {
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}

#[test]
fn a_node_of_a_cluster_is_reached_somewhere() {
    let cluster =
        |more: &[&str]| flags(&[&["--cluster-enabled", "yes"], more].concat()).map(|config| config.cluster.unwrap());
    let default = cluster(&["--port", "7000"]).unwrap();
    assert_eq!((default.port, default.announced_host.as_str(), default.secret), (0, "127.0.0.1", None));
    assert_eq!(
        cluster(&["--bind", "0.0.0.0", "--announce-host", "node-1.example"]).unwrap().announced_host,
        "node-1.example"
    );
    for (wrong, named) in [
        (&["--bind", "0.0.0.0"][..], "announce-host"),
        (&["--announce-host", "a b"], "announce-host"),
        (&["--announce-host", "0.0.0.0"], "announce-host"),
        (&["--port", "60000"], "cluster-port"),
        (&["--port", "7000", "--cluster-port", "7000"], "cluster-port"),
        (&["--replicaof", "h:1"], "replicaof"),
        (&["--cluster-node-timeout", "99"], "cluster-node-timeout"),
    ] {
        let errors = cluster(wrong).unwrap_err().to_string();
        assert!(errors.contains(named), "{wrong:?}: {errors}");
    }
    assert_eq!(flags(&[]).unwrap().cluster, None);
}
