//! What a server counts of itself, of which metrics tell.

use crate::clients::patient::Patient;

/// Since the server started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    pub commands: u64,
    /// CPU time of all its threads, in µs.
    pub cpu_us: u64,
    pub evicted_keys: u64,
    /// Scripts it was asked for and did not know; `None` where it does not count errors (before 6.2).
    pub noscript: Option<u64>,
}

impl Stats {
    pub async fn of(connection: &mut Patient) -> Result<Self, redis::RedisError> {
        let stats: String = redis::cmd("INFO").arg("stats").query_async(connection).await?;
        let cpu: String = redis::cmd("INFO").arg("cpu").query_async(connection).await?;
        let errors: String = redis::cmd("INFO").arg("errorstats").query_async(connection).await?;
        Ok(Self::parse(&stats, &cpu, &errors))
    }

    fn parse(stats: &str, cpu: &str, errors: &str) -> Self {
        let number = |text: &str| text.trim().parse::<u64>().unwrap_or(0);
        let told = |name: &str| stats.lines().find_map(|l| l.strip_prefix(name)).map_or(0, number);
        let seconds = |name: &str| {
            let told =
                cpu.lines().find_map(|l| l.strip_prefix(name)).and_then(|s| s.trim().parse::<f64>().ok());
            (told.unwrap_or(0.0) * 1e6).round() as u64
        };
        let noscript = errors.lines().find_map(|l| l.strip_prefix("errorstat_NOSCRIPT:count="));
        let counts = errors.contains("# Errorstats");
        Self {
            commands: told("total_commands_processed:"),
            cpu_us: seconds("used_cpu_sys:") + seconds("used_cpu_user:"),
            evicted_keys: told("evicted_keys:"),
            noscript: counts.then(|| noscript.map_or(0, number)),
        }
    }

    /// What came to it since; nothing of a server that was started again.
    pub fn since(self, before: Self) -> Self {
        let noscript = |now: u64| now.saturating_sub(before.noscript.unwrap_or(0));
        Self {
            commands: self.commands.saturating_sub(before.commands),
            cpu_us: self.cpu_us.saturating_sub(before.cpu_us),
            evicted_keys: self.evicted_keys.saturating_sub(before.evicted_keys),
            noscript: self.noscript.map(noscript),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_counts_no_errors_is_not_one_without_any() {
        let stats = "# Stats\r\ntotal_commands_processed:7\r\nevicted_keys:3\r\n";
        let cpu = "# CPU\r\nused_cpu_sys:0.5\r\nused_cpu_user:1.000002\r\nused_cpu_sys_children:9\r\n";
        let of = |errors: &str| Stats::parse(stats, cpu, errors);
        assert_eq!(of("").noscript, None);
        assert_eq!(of("# Errorstats\r\n").noscript, Some(0));
        let told = of("# Errorstats\r\nerrorstat_ERR:count=9\r\nerrorstat_NOSCRIPT:count=4\r\n");
        assert_eq!((told.commands, told.evicted_keys, told.noscript), (7, 3, Some(4)));
        assert_eq!(told.cpu_us, 1_500_002);
        let since = told.since(Stats { commands: 2, evicted_keys: 3, noscript: Some(1), cpu_us: 1_500_000 });
        assert_eq!((since.commands, since.evicted_keys, since.noscript), (5, 0, Some(3)));
        assert_eq!(since.cpu_us, 2);
    }
}
