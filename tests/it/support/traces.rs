//! What a run may leave outside of its results.

use std::collections::HashMap;
use std::path::Path;

use bollard::query_parameters::{ListContainersOptionsBuilder, ListNetworksOptionsBuilder};

/// The id in the first line of a run's history.
pub fn run_id(folder: &Path) -> String {
    let text = std::fs::read_to_string(folder.join("history.jsonl")).unwrap();
    let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    first["id"].as_str().unwrap().to_owned()
}

/// The processes with this path in their command line: a local server names its data folder.
pub fn processes_that_name(path: &Path) -> Vec<String> {
    let path = path.to_str().unwrap();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let args = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let args = String::from_utf8_lossy(&args).replace('\0', " ");
        // Programs of somebody else's, and their children, bear the run in their environment.
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        let marked = String::from_utf8_lossy(&environment).contains(&format!("RL_LAB_RUN_DIR={path}"));
        if args.contains(path) || marked {
            found.push(format!("process {}: {args}", entry.path().display()));
        }
    }
    found
}

/// What the engine has under a run's label.
pub async fn engine_traces(run: &str) -> Vec<String> {
    let docker = bollard::Docker::connect_with_defaults().unwrap();
    let label = HashMap::from([("label", vec![format!("rl-lab.run={run}")])]);
    let options = ListContainersOptionsBuilder::new().all(true).filters(&label).build();
    let containers = docker.list_containers(Some(options)).await.unwrap();
    let options = ListNetworksOptionsBuilder::new().filters(&label).build();
    let networks = docker.list_networks(Some(options)).await.unwrap();
    let containers = containers.into_iter().map(|c| format!("container {:?}", c.names));
    containers.chain(networks.into_iter().map(|n| format!("network {:?}", n.name))).collect()
}
