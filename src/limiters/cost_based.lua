-- KEYS[1] the counter · ARGV[1] limit · ARGV[2] window in ms · ARGV[3] cost
-- ARGV[4] 'missing': set an expiry where there is none; 'first': where the count came to 1
-- Returns {allowed, remaining, wait in ms; -1 for never}.
local limit, cost = tonumber(ARGV[1]), tonumber(ARGV[3])
local count = tonumber(redis.call('GET', KEYS[1])) or 0
if count + cost > limit then
  local wait = -1
  local left = redis.call('PTTL', KEYS[1])
  if cost <= limit and left >= 0 then
    wait = left + 1
  end
  return {0, math.max(0, limit - count), wait}
end
count = redis.call('INCRBY', KEYS[1], cost)
if ARGV[4] == 'first' then
  if count == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
elseif redis.call('PTTL', KEYS[1]) == -1 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return {1, limit - count, 0}
