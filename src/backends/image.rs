//! Which image the servers run: asked for, pinned, or built here. Never a silent substitute.

use std::time::Duration;

use bollard::query_parameters::{CreateImageOptionsBuilder, ListImagesOptionsBuilder};
use futures_util::StreamExt;
use tokio::time::timeout;

use super::builds;
use super::engine::{Engine, explain, has_status};
use crate::ports::backend::BackendOptions;

/// The official image that an unconfigured lab runs. Pinned, so that two machines measure the same.
pub const PINNED: &str = "redis:8.2.3";

/// What `scripts/build-image` makes.
const BUILT_HERE: &str = "rl-lab-redis:";

/// What `scripts/build-image --postgres` makes.
const POSTGRES_BUILT_HERE: &str = "rl-lab-postgres:";
const NO_POSTGRES: &str = "there is no image of a PostgreSQL; make one from the server of this host with \
                           `scripts/build-image --postgres`, or use --backend local";

const PULL_WITHIN: Duration = Duration::from_secs(60);

/// The image of a run.
#[derive(Debug, Clone)]
pub struct Image {
    /// As it was asked for.
    pub name: String,
    /// `sha256:…`; containers are made from it, so that a tag that moves changes nothing.
    pub id: String,
    /// The registry's digest, or the id where the image never saw a registry.
    pub digest: String,
    /// Why this one.
    pub because: String,
}

/// What to run, before anything was pulled.
#[derive(Debug, PartialEq, Eq)]
pub struct Choice {
    pub name: String,
    pub present: bool,
    pub because: String,
}

/// The image that is asked for, and by what.
pub fn asked_for(options: &BackendOptions) -> Option<(String, &'static str)> {
    if let Some(build) = options.server {
        return Some((build.image(), "--server"));
    }
    let flag = options.image.clone().map(|i| (i, "--image"));
    flag.or_else(|| Some((std::env::var("RL_LAB_IMAGE").ok()?, "RL_LAB_IMAGE")))
        .filter(|(name, _)| !name.is_empty())
}

/// Chooses. `local` are the tags the engine has, newest first; `present` says whether it has the
/// image that was asked for, which may be named in more ways than by a tag.
fn choose(asked: Option<(String, &str)>, present: bool, local: &[String]) -> Choice {
    if let Some((name, by)) = asked {
        return Choice { name, present, because: format!("named by {by}") };
    }
    if local.iter().any(|tag| tag == PINNED) {
        let because = "the pinned official image, present".to_owned();
        return Choice { name: PINNED.to_owned(), present: true, because };
    }
    if let Some(built) = local.iter().find(|tag| tag.starts_with(BUILT_HERE)) {
        let because = format!("built on this host; {PINNED} is not present");
        return Choice { name: built.clone(), present: true, because };
    }
    let because = "the pinned official image".to_owned();
    Choice { name: PINNED.to_owned(), present: false, because }
}

/// What this engine would run, without pulling it.
pub async fn choice(engine: &Engine, options: &BackendOptions) -> Result<Choice, String> {
    let asked = asked_for(options).map(|(name, by)| (with_tag(&name), by));
    if let Some((name, _)) = &asked {
        let present = match engine.docker.inspect_image(name).await {
            Ok(_) => true,
            Err(error) if has_status(&error, 404) => false,
            Err(error) => return Err(explain(&error)),
        };
        return Ok(choose(asked, present, &[]));
    }
    Ok(choose(None, false, &tags(engine).await?))
}

/// Finds the image, pulling it if it is not there. The error says how else to get one.
pub async fn resolve(
    engine: &Engine,
    options: &BackendOptions,
    say: &mut (dyn FnMut(String) + Send),
) -> Result<Image, String> {
    let choice = choice(engine, options).await?;
    let mut because = choice.because;
    if !choice.present {
        may_pull(options)?;
        say(format!("pulling {}, for at most {} s", choice.name, PULL_WITHIN.as_secs()));
        pull(engine, &choice.name).await.map_err(|why| {
            format!(
                "image {} is not present and cannot be pulled: {why}; make one from a redis-server \
                 of this host with `scripts/build-image`, or name one that is present with --image",
                choice.name
            )
        })?;
        because += ", pulled now";
    }
    let about = engine.docker.inspect_image(&choice.name).await.map_err(|e| explain(&e))?;
    let id = about.id.unwrap_or_default();
    let digest = about.repo_digests.unwrap_or_default().into_iter().next().unwrap_or_else(|| id.clone());
    Ok(Image { name: choice.name, id, digest, because })
}

/// Whether an image that is not there may be had from a registry. The names of builds are the lab's own: there they are
/// somebody else's.
fn may_pull(options: &BackendOptions) -> Result<(), String> {
    options.server.map_or(Ok(()), |build| Err(builds::no_image(build)))
}

/// The image of a PostgreSQL: asked for, or built here. It holds a data folder that anybody may connect to, so no
/// official image will do, and none is pulled.
pub async fn of_postgres(engine: &Engine) -> Result<Image, String> {
    let asked = std::env::var("RL_LAB_POSTGRES_IMAGE").ok().filter(|name| !name.is_empty());
    let (name, because) = match asked {
        Some(name) => (with_tag(&name), "named by RL_LAB_POSTGRES_IMAGE"),
        None => {
            let built = tags(engine).await?.into_iter().find(|tag| tag.starts_with(POSTGRES_BUILT_HERE));
            (built.ok_or(NO_POSTGRES)?, "built on this host")
        }
    };
    let about = engine.docker.inspect_image(&name).await.map_err(|e| {
        format!("image {name}: {}; name one that `scripts/build-image --postgres` made", explain(&e))
    })?;
    let id = about.id.unwrap_or_default();
    Ok(Image { name, digest: id.clone(), id, because: because.to_owned() })
}

/// Newest first.
async fn tags(engine: &Engine) -> Result<Vec<String>, String> {
    let list = ListImagesOptionsBuilder::new().build();
    let mut images = engine.docker.list_images(Some(list)).await.map_err(|e| explain(&e))?;
    images.sort_by_key(|image| std::cmp::Reverse(image.created));
    Ok(images.into_iter().flat_map(|image| image.repo_tags).collect())
}

async fn pull(engine: &Engine, name: &str) -> Result<(), String> {
    let options = CreateImageOptionsBuilder::new().from_image(name).build();
    let mut progress = std::pin::pin!(engine.docker.create_image(Some(options), None, None));
    let all = async {
        while let Some(step) = progress.next().await {
            step.map_err(|e| explain(&e))?;
        }
        Ok(())
    };
    timeout(PULL_WITHIN, all).await.unwrap_or_else(|_| Err(format!("not done within {PULL_WITHIN:?}")))
}

/// A name without a tag means `latest` to people, but all tags to the engine's pull.
fn with_tag(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    if last.contains([':', '@']) { name.to_owned() } else { format!("{name}:latest") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(names: &[&str]) -> Vec<String> {
        names.iter().map(|n| (*n).to_owned()).collect()
    }

    #[test]
    fn what_was_asked_for_is_never_replaced() {
        let asked = Some(("redis:6.2".to_owned(), "--image"));
        let choice = choose(asked, false, &tags(&[PINNED, "rl-lab-redis:7.0.15"]));
        assert_eq!((choice.name.as_str(), choice.present), ("redis:6.2", false));
    }

    #[test]
    fn the_image_of_a_build_is_never_pulled() {
        let server = crate::model::servers::Build::find("8.2").ok();
        let options = BackendOptions { server, image: Some("redis:7".to_owned()), ..Default::default() };
        assert_eq!(asked_for(&options), Some(("rl-lab-server:8.2".to_owned(), "--server")));
        assert!(may_pull(&options).unwrap_err().contains("`scripts/servers images 8.2` makes it"));
        assert!(may_pull(&BackendOptions { server: None, ..options }).is_ok());
    }

    #[test]
    fn pinned_then_built_here_then_a_pull() {
        let all = tags(&["rl-lab-redis:7.0.15", "rl-lab-redis:6.2.14", PINNED]);
        assert_eq!(choose(None, false, &all).name, PINNED);
        let built = choose(None, false, &all[..2]);
        assert_eq!((built.name.as_str(), built.present), ("rl-lab-redis:7.0.15", true));
        let other = tags(&["redis:7", "postgres:16", "someone/rl-lab-redis:1"]);
        assert_eq!(
            (choose(None, false, &other).name.as_str(), choose(None, false, &other).present),
            (PINNED, false)
        );
    }

    #[test]
    fn a_name_without_a_tag_means_latest() {
        assert_eq!(with_tag("redis"), "redis:latest");
        assert_eq!(with_tag("localhost:5000/redis"), "localhost:5000/redis:latest");
        assert_eq!(with_tag("localhost:5000/redis:7"), "localhost:5000/redis:7");
        assert_eq!(with_tag("redis@sha256:abc"), "redis@sha256:abc");
    }
}
