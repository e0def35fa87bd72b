#!/usr/bin/env php
<?php
// An app server around Laravel's limiters: speaks docs/protocol.md on stdin and stdout.
//
//   adapter.php VARIANT   laravel-redis or laravel-cache
//   adapter.php --list    their names, if they can run
//   adapter.php --check   the version that they are of; fails if something is not installed
//
// One call at a time over one connection, as a worker of php-fpm serves them. The libraries are
// Debian's php-illuminate-* packages, the client is phpredis.

ini_set('display_errors', 'stderr'); // stdout is for the protocol alone

use Illuminate\Cache\RateLimiter;
use Illuminate\Cache\RedisStore;
use Illuminate\Cache\Repository;
use Illuminate\Redis\Connections\PhpRedisConnection;
use Illuminate\Redis\Connectors\PhpRedisConnector;
use Illuminate\Redis\Limiters\DurationLimiter;
use Illuminate\Redis\RedisManager;

class Unfit extends Exception
{
}

function say(array $fields): void
{
    fwrite(STDOUT, json_encode($fields, JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE)."\n");
    fflush(STDOUT);
}

// The version that Debian's package manager has noted; the packages themselves name none.
function installed_version(string $package): string
{
    $entry = strstr((string) @file_get_contents('/var/lib/dpkg/status'), "Package: $package\n");

    return preg_match('/^Version: (\S+)/m', (string) $entry, $found) ? $found[1] : 'unknown';
}

function load_libraries(): void
{
    $found = array_filter(
        ['Illuminate/Redis/autoload.php', 'Illuminate/Cache/autoload.php'],
        'stream_resolve_include_path'
    );
    if (count($found) < 2 || ! extension_loaded('redis')) {
        throw new Unfit('not installed: php-illuminate-redis, php-illuminate-cache and the extension redis are needed');
    }
    array_walk($found, function ($file) { require_once $file; });

    // Counts the commands of a call and the writes that were not refused, to tell what a failure left behind.
    class_alias(get_class(new class(null) extends PhpRedisConnection {
        public static int $commands = 0;

        public static int $writes = 0;

        public function command($method, array $parameters = [])
        {
            self::$commands++;
            $writes = strtolower($method) === 'get' ? 0 : 1;
            self::$writes += $writes;
            try {
                return parent::command($method, $parameters);
            } catch (RedisException $error) {
                self::$writes -= is_error_reply($error) ? $writes : 0;
                throw $error;
            }
        }
    }), 'NotedConnection');
}

function open_redis(array $hello): RedisManager
{
    $url = parse_url($hello['redis']);
    $server = ['host' => $url['host'], 'port' => $url['port'] ?? 6379, 'database' => 0];
    $manager = new RedisManager(null, 'noted', ['default' => $server]);
    $manager->extend('noted', function () {
        return new class extends PhpRedisConnector {
            public function connect(array $config, array $options)
            {
                $connector = fn () => $this->createClient(array_merge($config, $options));

                return new NotedConnection($connector(), $connector, $config);
            }
        };
    });

    return $manager;
}

// What the middleware throttle of Laravel does when redis is its driver.
function laravel_redis(RedisManager $redis, int $limit, int $seconds): Closure
{
    return function (string $key) use ($redis, $limit, $seconds): array {
        $limiter = new DurationLimiter($redis, sha1($key), $limit, $seconds);
        if ($limiter->acquire()) {
            return ['allowed' => true, 'remaining' => $limiter->remaining];
        }
        if ($limiter->decaysAt === null) { // phpredis gave `false` for an error reply, and that reads as a no
            return ['allowed' => false, 'source' => 'fail-closed'];
        }

        return ['allowed' => false, 'remaining' => 0, 'retry_after_ms' => ($limiter->decaysAt - time()) * 1000];
    };
}

// What the middleware throttle of Laravel does over a cache that is kept in redis.
function laravel_cache(RedisManager $redis, int $limit, int $seconds): Closure
{
    $limiter = new RateLimiter(new Repository(new RedisStore($redis, 'laravel_cache')));

    return function (string $caller) use ($limiter, $limit, $seconds): array {
        $key = sha1($caller);
        if ($limiter->tooManyAttempts($key, $limit)) {
            return ['allowed' => false, 'remaining' => 0, 'retry_after_ms' => $limiter->availableIn($key) * 1000];
        }
        $limiter->hit($key, $seconds);

        return ['allowed' => true, 'remaining' => max(0, $limiter->retriesLeft($key, $limit))];
    };
}

function read_hello(string $line): array
{
    $hello = json_decode($line, true);
    if (! is_array($hello) || ($hello['hello'] ?? null) !== 1) {
        throw new Unfit('no hello of protocol 1: '.substr(trim($line), 0, 200));
    }
    foreach (['limit', 'window_ms', 'connections'] as $name) {
        if (! is_int($hello[$name] ?? null) || $hello[$name] < 1) {
            throw new Unfit("the hello cannot be read: $name");
        }
    }
    if (! is_string($hello['redis'] ?? null) || ! isset(parse_url($hello['redis'])['host'])) {
        throw new Unfit('the hello cannot be read: redis');
    }
    if (($hello['clock_offset_ms'] ?? 0) != 0) {
        throw new Unfit('the library reads the clock of its machine: no offset can be set');
    }
    if ($hello['window_ms'] % 1000 !== 0) {
        throw new Unfit("the library counts in seconds: no window of {$hello['window_ms']} ms");
    }

    return $hello;
}

// phpredis throws error replies as they are: a word in capitals, then text. (It throws those that open
// with ERR in no case: the library sees `false`.)
function is_error_reply(RedisException $error): bool
{
    return preg_match('/^[A-Z]{3,} /', $error->getMessage()) === 1;
}

function kind_of(Throwable $error): string
{
    if (! $error instanceof RedisException) {
        return 'unexpected';
    }
    if (is_error_reply($error)) {
        return NotedConnection::$writes === 0 ? 'refused' : 'no-answer';
    }
    $first = NotedConnection::$commands <= 1;
    $unsent = preg_match('/went away|refused|getaddrinfo|timed out|No route/i', $error->getMessage());

    return $first && $unsent ? 'not-connected' : 'no-answer';
}

function answer_to(array $request, ?Closure &$decide, Closure $build): array
{
    NotedConnection::$commands = NotedConnection::$writes = 0;
    try {
        $op = $request['op'] ?? null;
        if ($op !== 'acquire') {
            throw new Unfit('the op '.json_encode($op).' is not known');
        }
        $cost = $request['cost'] ?? 1;
        if (! is_string($request['key'] ?? null) || ! is_int($cost) || $cost < 1) {
            throw new Unfit('the key or the cost cannot be read');
        }
        if ($cost !== 1) {
            throw new Unfit('the library has no costs: every call counts 1');
        }
        $decide ??= $build();
        $answer = $decide($request['key']);
        if (isset($answer['retry_after_ms'])) {
            $answer['retry_after_ms'] = max(0, $answer['retry_after_ms']);
        }

        return $answer + ['round_trips' => NotedConnection::$commands, 'sent' => NotedConnection::$commands > 0];
    } catch (Unfit $unfit) {
        return ['error' => ['kind' => 'unexpected', 'text' => $unfit->getMessage()], 'sent' => false];
    } catch (Throwable $error) {
        $kind = kind_of($error);

        return ['error' => ['kind' => $kind, 'text' => $error->getMessage()], 'sent' => $kind !== 'not-connected'];
    }
}

$variants = ['laravel-redis' => 'laravel_redis', 'laravel-cache' => 'laravel_cache'];
$name = $argv[1] ?? '';
if ($name === '--list' || $name === '--check') {
    try {
        load_libraries();
    } catch (Unfit $unfit) {
        fwrite(STDERR, "adapter: {$unfit->getMessage()}\n");
        exit(1);
    }
    $version = installed_version('php-illuminate-redis');
    echo $name === '--list' ? implode("\n", array_keys($variants)) : "laravel (php-illuminate-redis) $version", "\n";
    exit(0);
}
if (! isset($variants[$name]) || $argc !== 2) {
    fwrite(STDERR, "adapter: no such variant: $name; --list names them\n");
    exit(2);
}

try {
    load_libraries();
    $hello = read_hello((string) fgets(STDIN));
    $redis = open_redis($hello);
    $build = fn () => $variants[$name]($redis, $hello['limit'], intdiv($hello['window_ms'], 1000));
    $decide = null;
    if (($hello['cold_pool'] ?? false) !== true) {
        $redis->connection();
        $decide = $build();
    }
} catch (Throwable $error) {
    say(['ready' => false, 'error' => $error->getMessage()]);
    exit(2);
}
$version = installed_version('php-illuminate-redis');
say(['ready' => true, 'name' => 'laravel', 'version' => $version, 'capabilities' => [], 'now_us' => (int) (microtime(true) * 1e6)]);

while (($line = fgets(STDIN)) !== false) {
    $request = json_decode($line, true);
    if (! is_array($request) || ! is_int($request['id'] ?? null)) {
        fwrite(STDERR, 'adapter: no request: '.substr(trim($line), 0, 200)."\n");
        exit(2);
    }
    say(['id' => $request['id']] + answer_to($request, $decide, $build));
}
