//! The JSON schema of `rl-lab.toml`, for editors and for whoever writes one by program. Tests hold the one list of
//! fields below to the types that read the file.

use serde_json::{Map, Value, json};

use crate::model::figures::Figure;

/// A table of the file.
struct Table {
    name: &'static str,
    about: &'static str,
    /// What it shares with others.
    settings: &'static [Field],
    own: &'static [Field],
}

impl Table {
    fn fields(&self) -> impl Iterator<Item = &'static Field> {
        self.settings.iter().chain(self.own)
    }
}

struct Field(&'static str, Is, Need, &'static str);

#[derive(Clone, Copy, PartialEq)]
enum Need {
    Must,
    May,
}

use Need::{May, Must};

/// What a value is.
#[derive(Clone, Copy)]
enum Is {
    Text,
    Flag,
    /// A whole number that is no less than this.
    Whole(i64),
    Exactly(u32),
    /// `100ms`, `60s`, `2h`.
    Span,
    OneOf(&'static [&'static str]),
    /// A number, or a text with places that comes to one.
    Comes,
    Of(&'static str),
    Several(&'static Is),
    /// By names of one's own.
    Named(&'static Is),
    Figures,
}

const SCOPES: Is = Is::OneOf(&["node", "global"]);

/// What flags and the environment say as well.
const SETTINGS: &[Field] = &[
    Field("backend", Is::Text, May, "Where the servers run: auto, docker or local."),
    Field("server", Is::Text, May, "Servers by name, such as 6.2, 7.0,8.2 or all; instead of the next two."),
    Field("image", Is::Text, May, "Image of the docker backend."),
    Field("redis_server", Is::Text, May, "Server binary of the local backend, from this file's folder."),
    Field("out", Is::Text, May, "Folder for the results, from this file's folder."),
    Field("seed", Is::Whole(0), May, "Seed of every random choice."),
];

const TABLES: [Table; 9] = [
    Table {
        name: "config",
        about: "The limiters of a repository, what is required of them, and what a gate runs.",
        settings: SETTINGS,
        own: &[
            Field("schema", Is::Exactly(super::SCHEMA), Must, "The version of the format."),
            Field("limiter", Is::Named(&Is::Of("limiter")), May, "Limiters, each by its name."),
            Field(
                "require",
                Is::Of("require"),
                May,
                "What is needed of every limiter, instead of what scenarios require.",
            ),
            Field("profile", Is::Named(&Is::Of("profile")), May, "What `rl-lab gate --profile NAME` runs."),
        ],
    },
    Table {
        name: "profile",
        about: "What a gate runs. Its settings come before those of the file.",
        settings: SETTINGS,
        own: &[
            Field("scenarios", Is::Several(&Is::Text), Must, "Scenarios by name, or files beside this one."),
            Field(
                "limiters",
                Is::Several(&Is::Text),
                May,
                "Those of the file where none is named; built-in ones may stand beside them.",
            ),
            Field("rounds", Is::Whole(1), May, "Rounds of each scenario, instead of its own number."),
            Field(
                "explore",
                Is::Span,
                May,
                "How long schedules of each limiter are searched, where they can be.",
            ),
            Field(
                "at_most",
                Is::Figures,
                May,
                "Figures that must not be above a number, of any scenario that measures them.",
            ),
            Field(
                "must_be_known",
                Is::Several(&Is::Text),
                May,
                "Checks whose verdict `unknown` fails the gate as well.",
            ),
        ],
    },
    Table {
        name: "require",
        about: "What is needed, whatever a limiter promises.",
        settings: &[],
        own: &[
            Field(
                "bound",
                Is::OneOf(&["fixed-window", "aligned-window", "sliding-window", "bucket"]),
                Must,
                "What is counted.",
            ),
            Field(
                "scope",
                SCOPES,
                May,
                "Whether it holds over all app servers together (global, the default) or for each.",
            ),
            Field("limit", Is::Whole(1), May, "The scenario's where absent."),
            Field("window", Is::Span, May, "The scenario's where absent."),
        ],
    },
    Table {
        name: "limiter",
        about: "How a limiter is reached (command, command with http, or lua), and what it promises.",
        settings: &[],
        own: &[
            Field("summary", Is::Text, May, "One line: which algorithm, which library."),
            Field(
                "command",
                Is::Several(&Is::Text),
                May,
                "Starts an app server: a program and its arguments, run in the folder of this file.",
            ),
            Field("http", Is::Of("http"), May, "It is asked over HTTP."),
            Field("lua", Is::Of("lua"), May, "It is a script that the store runs."),
            Field(
                "env",
                Is::Named(&Is::Text),
                May,
                "Put into the environment of the command. Texts may have places such as {limit}.",
            ),
            Field(
                "deadline",
                Is::Span,
                May,
                "The longest that the lab waits for an answer to one call (5s).",
            ),
            Field(
                "start_within",
                Is::Span,
                May,
                "The longest that an app server may take until it is ready (30s).",
            ),
            Field("limit", Is::Whole(1), May, "The limit it is built for, where that is fixed."),
            Field("window", Is::Span, May, "The window it is built for, where that is fixed."),
            Field(
                "skips_time",
                Is::Flag,
                May,
                "Whether it reads no clock that decides, so that waits can be skipped and its schedules searched.",
            ),
            Field(
                "module",
                Is::Text,
                May,
                "A module that the servers it runs on load, from this file's folder; on the local backend only.",
            ),
            Field(
                "policy",
                Is::Text,
                May,
                "What is put around it wherever it runs: fail-open, circuit-breaker:failures=3. See `rl-lab list policies`.",
            ),
            Field("contract", Is::Of("contract"), Must, "What it promises, without its policy."),
        ],
    },
    Table {
        name: "http",
        about: "How a service is asked.",
        settings: &[],
        own: &[
            Field("path", Is::Text, May, "/ where absent. May have places such as {key}."),
            Field("method", Is::Text, May, "GET where absent."),
            Field("headers", Is::Named(&Is::Text), May, "Fields of each request. Texts may have places."),
            Field(
                "refused",
                Is::Several(&Is::Whole(400)),
                May,
                "Statuses that mean: refused for its rate (429).",
            ),
        ],
    },
    Table {
        name: "lua",
        about: "How a script is called, and what its reply means.",
        settings: &[],
        own: &[
            Field("file", Is::Text, May, "The script, from this file's folder."),
            Field("script", Is::Text, May, "The script itself, instead of a file."),
            Field(
                "then",
                Is::Text,
                May,
                "A second script, called with the same keys and args after the first has admitted a call.",
            ),
            Field("keys", Is::Several(&Is::Text), Must, "KEYS. Texts may have places such as {key}."),
            Field(
                "args",
                Is::Several(&Is::Text),
                May,
                "ARGV. Texts may have places such as {limit}, {window_ms}, {now_ms}.",
            ),
            Field("allowed", Is::Of("allowed"), Must, "When a call is admitted."),
            Field("remaining", Is::Of("place"), May, "Where the reply says what is left."),
            Field("retry_after_ms", Is::Of("place"), May, "Where the reply says how long to wait."),
            Field(
                "reset_ms",
                Is::Of("place"),
                May,
                "Where the reply says when all of the limit is there again.",
            ),
        ],
    },
    Table {
        name: "allowed",
        about: "What a number of the reply has to be: exactly one comparison.",
        settings: &[],
        own: &[
            Field("at", Is::Whole(1), May, "The element of a list; the reply itself where absent."),
            Field("is", Is::Comes, May, "It is this."),
            Field("at_least", Is::Comes, May, "It is this or more."),
            Field("at_most", Is::Comes, May, "It is this or less."),
        ],
    },
    Table {
        name: "place",
        about: "Where in a reply a number stands.",
        settings: &[],
        own: &[
            Field("at", Is::Whole(1), May, "The element of a list; the reply itself where absent."),
            Field("times", Is::Whole(i64::MIN), May, "What a unit of it is worth: 1000 for seconds (1)."),
        ],
    },
    Table {
        name: "contract",
        about: "What it promises.",
        settings: &[],
        own: &[
            Field(
                "bound",
                Is::OneOf(&[
                    "fixed-window",
                    "aligned-window",
                    "sliding-window",
                    "weighted-two-window",
                    "bucket",
                    "none",
                ]),
                Must,
                "What is counted.",
            ),
            Field("capacity", Is::Whole(1), May, "The most a bucket holds; the limit where absent."),
            Field(
                "scope",
                SCOPES,
                May,
                "Whether it holds over all app servers together (global, the default) or for each.",
            ),
            Field("clock", Is::OneOf(&["app", "server", "expiry"]), Must, "Whose clock decides."),
            Field("clock_resolution_ms", Is::Whole(0), May, "In which steps that clock is read (1)."),
            Field("denials", Is::OneOf(&["charged", "free"]), Must, "Whether refused calls count."),
            Field(
                "on_outage",
                Is::OneOf(&["open", "closed", "fallback", "error", "unaffected"]),
                May,
                "What callers get while the store does not answer (error).",
            ),
            Field(
                "fallback",
                Is::Whole(1),
                May,
                "What each app server admits by itself then; the limit where absent.",
            ),
            Field("key_ttl_at_most", Is::Span, May, "The longest that a key may live."),
            Field(
                "lockout_windows",
                Is::Whole(1),
                May,
                "For how many windows a caller that used up its limit is refused, where those are its own.",
            ),
            Field(
                "in_background",
                Is::Flag,
                May,
                "Whether it goes on after a call has its answer, or beside it: it is waited for, and not searched, nor killed at a step.",
            ),
        ],
    },
];

/// The schema, as `docs/rl-lab.schema.json` has it.
pub fn schema() -> Value {
    let mut whole = Map::new();
    whole.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    whole.insert("title".to_owned(), json!(super::FILE));
    let defined: Map<String, Value> =
        TABLES[1..].iter().map(|t| (t.name.to_owned(), Value::Object(table(t)))).collect();
    whole.extend(table(&TABLES[0]));
    whole.insert("$defs".to_owned(), Value::Object(defined));
    Value::Object(whole)
}

fn table(of: &Table) -> Map<String, Value> {
    let properties: Map<String, Value> = of
        .fields()
        .map(|Field(name, is, _, about)| {
            let mut value = of_kind(*is);
            if let Value::Object(fields) = &mut value {
                fields.insert("description".to_owned(), json!(about));
            }
            ((*name).to_owned(), value)
        })
        .collect();
    let must: Vec<&str> = of.fields().filter(|f| f.2 == Must).map(|f| f.0).collect();
    let mut out = Map::new();
    out.insert("description".to_owned(), json!(of.about));
    out.insert("type".to_owned(), json!("object"));
    out.insert("additionalProperties".to_owned(), json!(false));
    out.insert("properties".to_owned(), Value::Object(properties));
    if !must.is_empty() {
        out.insert("required".to_owned(), json!(must));
    }
    out
}

fn of_kind(is: Is) -> Value {
    match is {
        Is::Text => json!({"type": "string"}),
        Is::Flag => json!({"type": "boolean"}),
        Is::Whole(i64::MIN) => json!({"type": "integer"}),
        Is::Whole(least) => json!({"type": "integer", "minimum": least}),
        Is::Exactly(one) => json!({"const": one}),
        Is::Span => json!({"type": "string", "pattern": "^ *[0-9]+ *(ms|s|m|min|h|d) *$"}),
        Is::OneOf(names) => json!({"enum": names}),
        Is::Comes => json!({"type": ["integer", "string"]}),
        Is::Of(table) => json!({"$ref": format!("#/$defs/{table}")}),
        Is::Several(one) => json!({"type": "array", "items": of_kind(*one)}),
        Is::Named(one) => json!({"type": "object", "additionalProperties": of_kind(*one)}),
        Is::Figures => {
            let names: Map<String, Value> =
                Figure::ALL.iter().map(|f| (f.name().to_owned(), json!({"type": "number"}))).collect();
            json!({"type": "object", "additionalProperties": false, "properties": names})
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde::de::DeserializeOwned;

    use super::super::{Config, Profile};
    use super::*;
    use crate::model::foreign::{Condition, Declared, Foreign, HttpWay, LuaWay, Place};
    use crate::model::scenario::RequirePlan;

    const NOBODYS: &str = "nobodys";

    /// Reads one of the types.
    type Read = fn(Value) -> Result<(), String>;

    /// What serde says a type has instead of a name that is nobody's.
    fn told<T: DeserializeOwned>(json: Value) -> BTreeSet<String> {
        let why = serde_json::from_value::<T>(json).err().unwrap().to_string();
        assert!(why.contains(&format!("`{NOBODYS}`")), "{why}");
        let names = why.split('`').skip(1).step_by(2).filter(|n| *n != NOBODYS);
        names.map(str::to_owned).collect()
    }

    fn read_by<T: DeserializeOwned>() -> BTreeSet<String> {
        told::<T>(json!({NOBODYS: 1}))
    }

    #[test]
    fn every_field_of_the_schema_is_read_and_every_field_that_is_read_is_in_it() {
        let types = [
            read_by::<Config>(),
            read_by::<Profile>(),
            read_by::<RequirePlan>(),
            read_by::<Foreign>(),
            read_by::<HttpWay>(),
            read_by::<LuaWay>(),
            read_by::<Condition>(),
            read_by::<Place>(),
            read_by::<Declared>(),
        ];
        for (table, read) in TABLES.iter().zip(types) {
            let told: BTreeSet<String> = table.fields().map(|f| f.0.to_owned()).collect();
            assert_eq!(told, read, "{}", table.name);
        }
    }

    #[test]
    fn every_choice_of_the_schema_is_read_and_every_choice_that_is_read_is_in_it() {
        let mut compared = 0;
        for table in &TABLES {
            for Field(name, is, ..) in table.fields() {
                let Is::OneOf(choices) = is else { continue };
                let read = match table.name {
                    "require" => {
                        let mut good = json!({"bound": "bucket"});
                        good[name] = json!(NOBODYS);
                        told::<RequirePlan>(good)
                    }
                    _ => {
                        let mut good = json!({"bound": "bucket", "clock": "app", "denials": "free"});
                        good[name] = json!(NOBODYS);
                        told::<Declared>(good)
                    }
                };
                assert_eq!(choices.iter().map(|c| (*c).to_owned()).collect::<BTreeSet<_>>(), read, "{name}");
                compared += 1;
            }
        }
        assert_eq!(compared, 7);
    }

    #[test]
    fn what_must_be_there_is_missed_and_nothing_else() {
        let samples: [(&str, Value, Read); 9] = [
            ("config", json!({"schema": 1}), read::<Config>),
            ("profile", json!({"scenarios": []}), read::<Profile>),
            ("require", json!({"bound": "bucket"}), read::<RequirePlan>),
            (
                "limiter",
                json!({"contract": {"bound": "none", "clock": "app", "denials": "free"}}),
                read::<Foreign>,
            ),
            ("http", json!({}), read::<HttpWay>),
            ("lua", json!({"keys": [], "allowed": {}}), read::<LuaWay>),
            ("allowed", json!({}), read::<Condition>),
            ("place", json!({}), read::<Place>),
            ("contract", json!({"bound": "none", "clock": "app", "denials": "free"}), read::<Declared>),
        ];
        fn read<T: DeserializeOwned>(value: Value) -> Result<(), String> {
            serde_json::from_value::<T>(value).map(|_| ()).map_err(|e| e.to_string())
        }
        for (table, (name, sample, read)) in TABLES.iter().zip(samples) {
            assert_eq!(table.name, name);
            let fields = sample.as_object().unwrap();
            let must: BTreeSet<&str> = table.fields().filter(|f| f.2 == Must).map(|f| f.0).collect();
            assert_eq!(must, fields.keys().map(String::as_str).collect(), "{name}");
            read(sample.clone()).unwrap();
            for field in must {
                let mut less = fields.clone();
                less.remove(field);
                assert!(read(Value::Object(less)).unwrap_err().contains(field), "{name}.{field}");
            }
        }
    }

    #[test]
    fn the_schema_that_is_shipped_is_this_one() {
        let shipped = include_str!("../../../docs/rl-lab.schema.json");
        let same = shipped == format!("{:#}\n", schema());
        assert!(same, "write it again: rl-lab config schema > docs/rl-lab.schema.json");
    }
}
