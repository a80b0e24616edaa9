//! Recipes for clusters: their commands are the program's, their scripts parse, and the parts of their objects fit together.
//!
//! `tests/recipes/schemas.py` validates the objects against the schemas of their systems; the tests of the command line run the scripts
//! with stand-ins for the schedulers.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::tidy::{files, root};
use crate::workflows::{accepted, calls, values, words, yaml};

/// Name of the program in recipes.
const PROGRAM: [&str; 1] = ["parallax "];

/// Files of a folder of recipes.
fn recipes(folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    files(&root().join("recipes").join(folder), &mut found);
    found.sort();
    assert!(found.len() >= 3, "{folder}: {found:?}");
    found
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Objects of a folder, by their files.
fn objects(folder: &str) -> Vec<(PathBuf, Value)> {
    let is_yaml = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "yaml");
    recipes(folder).into_iter().filter(is_yaml).map(|path| (path.clone(), yaml(&path))).collect()
}

/// Every list of containers in an object.
fn containers(object: &Value) -> Vec<&Value> {
    let mut lists = Vec::new();
    ["containers", "initContainers"].into_iter().for_each(|key| values(object, key, &mut lists));
    lists.into_iter().filter_map(Value::as_array).flatten().collect()
}

/// Arguments of the program in a container; `None` if it runs something else.
fn arguments(container: &Value) -> Option<Vec<String>> {
    let list = |key: &str| container[key].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    let words: Vec<String> = list("command").chain(list("args")).collect();
    // The entry point of the image is the program.
    let start = match container["command"].is_null() {
        true => 0,
        false => words.iter().position(|word| word == "parallax")? + 1,
    };
    Some(words[start..].to_vec())
}

#[test]
fn commands_of_recipes_are_commands_of_the_program() {
    let of_script = |path: &PathBuf| calls(&read(path), &PROGRAM);
    let mut found: Vec<(&str, Vec<Vec<String>>)> =
        vec![("slurm", recipes("slurm").iter().flat_map(of_script).collect())];
    let tasks = objects("skypilot");
    let run = |(_, task): &(PathBuf, Value)| calls(task["run"].as_str().expect("a script"), &PROGRAM);
    found.push(("skypilot", tasks.iter().flat_map(run).collect()));
    let jobs = objects("kubernetes");
    found.push(("kubernetes", jobs.iter().flat_map(|(_, job)| containers(job)).filter_map(arguments).collect()));
    // Calls of the scripts in the guide have the program's arguments behind two hyphens.
    let guide = read(&root().join("docs/guide/fleet.md"));
    let launched = guide.lines().filter(|line| line.starts_with("recipes/"));
    let behind = |line: &str| {
        let line = line.split(" #").next().unwrap_or_default();
        line.split_once(" -- ").map(|(_, arguments)| words(arguments))
    };
    found.push(("guide", launched.filter_map(behind).collect()));
    for (system, calls) in &found {
        for call in calls {
            accepted(call).unwrap_or_else(|error| panic!("{system}: {error}"));
        }
        for command in ["run", "burn-in", "fleet"] {
            let there = calls.iter().any(|call| call.first().is_some_and(|first| first == command));
            assert!(there || (*system, command) == ("guide", "fleet"), "{system} has no {command}: {calls:?}");
        }
    }
}

#[test]
fn scripts_of_recipes_parse() {
    let mut scripts: Vec<String> = recipes("slurm").iter().map(|path| read(path)).collect();
    scripts.push(read(&root().join("recipes/kubernetes/launch")));
    scripts.push(read(&root().join("tools/slurm/two-nodes")));
    scripts.extend(objects("skypilot").iter().map(|(_, task)| task["run"].as_str().expect("a script").to_owned()));
    for script in scripts {
        let parsed = Command::new("bash").args(["-n", "-c", &script]).output().expect("bash");
        assert!(parsed.status.success(), "{}\n{script}", String::from_utf8_lossy(&parsed.stderr));
    }
}

#[test]
fn objects_of_kubernetes_name_images_volumes_and_claims_that_exist() {
    let image = read(&root().join("recipes/kubernetes/mpi.Dockerfile"));
    assert!(image.contains("\nFROM parallax\n") && image.contains("docker build -t parallax . "));
    let of_program = read(&root().join("Dockerfile"));
    let jobs = objects("kubernetes");
    let claims: Vec<&str> = jobs
        .iter()
        .filter(|(_, object)| object["kind"] == "PersistentVolumeClaim")
        .filter_map(|(_, claim)| claim["metadata"]["name"].as_str())
        .collect();
    for (path, job) in &jobs {
        let mut pods = Vec::new();
        values(job, "template", &mut pods);
        for pod in pods {
            let names = |key: &str| {
                let list = pod["spec"][key].as_array();
                list.into_iter().flatten().filter_map(|item| item["name"].as_str()).collect::<Vec<_>>()
            };
            for container in containers(pod) {
                let image = container["image"].as_str().expect("an image");
                assert!(["parallax", "parallax-mpi"].contains(&image), "{}: {image}", path.display());
                for mount in container["volumeMounts"].as_array().into_iter().flatten() {
                    let name = mount["name"].as_str().expect("a name");
                    assert!(names("volumes").contains(&name), "{}: {name}", path.display());
                }
                for variable in container["env"].as_array().into_iter().flatten() {
                    let Some(folders) = variable["value"].as_str() else { continue };
                    assert!(
                        of_program.contains(&format!("LD_LIBRARY_PATH={folders} ")),
                        "{}: {folders}",
                        path.display()
                    );
                }
            }
        }
        let mut claimed = Vec::new();
        values(job, "claimName", &mut claimed);
        let unknown = claimed.iter().find(|name| !claims.contains(&name.as_str().unwrap_or_default()));
        assert!(unknown.is_none(), "{}: {unknown:?} is not in {claims:?}", path.display());
    }
    assert!(claims.len() == 1 && jobs.len() >= 5, "{claims:?}");
}
