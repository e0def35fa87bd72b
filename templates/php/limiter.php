<?php
// A rate limiter behind the lines that rl-lab speaks (docs/protocol.md), with what PHP brings along.
// One call at a time, as a worker of php-fpm serves them.
//
// Put your own limiter into `decide`. Everything below it is the connection to Redis and the protocol.

ini_set('display_errors', 'stderr'); // stdout is for the protocol alone

// A fixed window that the first admitted call opens; refused calls cost nothing. One script is one step.
const SCRIPT = <<<'LUA'
local cost = tonumber(ARGV[3])
local count = tonumber(redis.call('GET', KEYS[1]) or '0')
if count + cost > tonumber(ARGV[1]) then
  return {0, count, redis.call('PTTL', KEYS[1])}
end
redis.call('INCRBY', KEYS[1], cost)
if redis.call('PTTL', KEYS[1]) < 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return {1, count + cost, 0}
LUA;

// Whether the call is admitted: what the lab is told of it.
function decide(Connection $redis, string $key, int $cost, int $limit, int $windowMs): array
{
    [$allowed, $count, $left] = $redis->call('EVAL', SCRIPT, 1, $key, $limit, $windowMs, $cost);
    // Read-then-write: two callers read the same count before either writes. Put this in place of the line above,
    // and `rl-lab gate` says what comes of it.
    //   $count = (int) ($redis->call('GET', $key) ?? 0);
    //   $left = $redis->call('PTTL', $key);
    //   $allowed = $count + $cost <= $limit;
    //   if ($allowed) {
    //       $count = $redis->call('INCRBY', $key, $cost);
    //       if ($redis->call('PTTL', $key) < 0) {
    //           $redis->call('PEXPIRE', $key, $windowMs);
    //       }
    //   }
    $answer = ['allowed' => (bool) $allowed, 'remaining' => max(0, $limit - $count)];
    if (! $allowed && $left > 0) {
        $answer['retry_after_ms'] = $left;
    }

    return $answer;
}

class Refused extends Exception
{
}

class NotConnected extends Exception
{
}

class Lost extends Exception
{
}

// The connection. Made when it is needed, and again after it broke.
class Connection
{
    public int $sent = 0;

    private $stream = null;

    public function __construct(private string $address)
    {
    }

    public function connect(): void
    {
        if ($this->stream === null) {
            $stream = @stream_socket_client($this->address, $code, $why, 5);
            if ($stream === false) {
                throw new NotConnected($why !== '' ? $why : "no connection to $this->address");
            }
            stream_set_timeout($stream, 5);
            $this->stream = $stream;
        }
    }

    public function call(string|int ...$words)
    {
        $this->connect();
        $parts = array_map(fn ($word) => '$'.strlen((string) $word)."\r\n$word\r\n", $words);
        $this->sent++;
        if (@fwrite($this->stream, '*'.count($words)."\r\n".implode('', $parts)) === false) {
            $this->lose();
        }

        return $this->reply();
    }

    private function lose(): never
    {
        fclose($this->stream);
        $this->stream = null;
        throw new Lost('the store hung up, or did not answer in time');
    }

    private function reply()
    {
        $line = fgets($this->stream);
        if ($line === false || ! str_ends_with($line, "\r\n")) {
            $this->lose();
        }
        $rest = substr($line, 1, -2);
        switch ($line[0]) {
            case ':':
                return (int) $rest;
            case '+':
                return $rest;
            case '$':
                if ($rest === '-1') {
                    return null;
                }
                $text = stream_get_contents($this->stream, (int) $rest + 2);
                if ($text === false || strlen($text) < (int) $rest + 2) {
                    $this->lose();
                }

                return substr($text, 0, -2);
            case '*':
                $items = [];
                for ($left = (int) $rest; $left > 0; $left--) {
                    $items[] = $this->reply();
                }

                return $items;
            default:
                throw new Refused($rest);
        }
    }
}

function say(array $fields): void
{
    fwrite(STDOUT, json_encode($fields, JSON_UNESCAPED_SLASHES | JSON_INVALID_UTF8_SUBSTITUTE)."\n");
    fflush(STDOUT);
}

function answer_to(array $request, Connection $redis, array $hello): array
{
    $redis->sent = 0;
    if (($request['op'] ?? null) !== 'acquire') {
        $text = 'the op '.json_encode($request['op'] ?? null).' is not known';

        return ['error' => ['kind' => 'unexpected', 'text' => $text], 'sent' => false];
    }
    try {
        $cost = $request['cost'] ?? 1;
        $answer = decide($redis, $request['key'], $cost, $hello['limit'], $hello['window_ms']);
    } catch (Refused $error) {
        // Of what came before the command that was refused, nobody says whether it was undone.
        $kind = $redis->sent <= 1 ? 'refused' : 'no-answer';
        $answer = ['error' => ['kind' => $kind, 'text' => $error->getMessage()]];
    } catch (NotConnected|Lost $error) {
        $kind = $redis->sent > 0 ? 'no-answer' : 'not-connected';
        $answer = ['error' => ['kind' => $kind, 'text' => $error->getMessage()]];
    }

    return $answer + ['sent' => $redis->sent > 0, 'round_trips' => $redis->sent];
}

try {
    $hello = json_decode((string) fgets(STDIN), true);
    if (! is_array($hello) || ($hello['hello'] ?? null) !== 1) {
        throw new Exception('no hello of protocol 1');
    }
    if (($hello['clock_offset_ms'] ?? 0) != 0) {
        throw new Exception('it goes by the clock of the store: no offset can be set');
    }
    $url = parse_url($hello['redis']);
    $redis = new Connection("tcp://{$url['host']}:".($url['port'] ?? 6379));
    if (($hello['cold_pool'] ?? false) !== true) {
        $redis->connect();
    }
} catch (Throwable $wrong) {
    say(['ready' => false, 'error' => $wrong->getMessage()]);
    exit(2);
}
say(['ready' => true, 'name' => 'limiter.php', 'version' => '1', 'capabilities' => []]);

while (($line = fgets(STDIN)) !== false) {
    $request = json_decode($line, true);
    if (! is_array($request) || ! is_int($request['id'] ?? null)) {
        fwrite(STDERR, 'limiter: no request: '.substr(trim($line), 0, 200)."\n");
        exit(2);
    }
    say(['id' => $request['id']] + answer_to($request, $redis, $hello));
}
