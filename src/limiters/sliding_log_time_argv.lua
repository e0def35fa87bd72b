-- KEYS[1] a sorted set · ARGV[1] limit · ARGV[2] window in ms · ARGV[3] cost · ARGV[4] now in ms
-- Returns {allowed, remaining, wait in ms; -1 for never}.
local limit, window, cost, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - window))
local count = redis.call('ZCARD', KEYS[1])
if count + cost > limit then
  local oldest = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
  local wait = -1
  if cost <= limit and oldest[2] then
    wait = math.max(0, tonumber(oldest[2]) + window - now)
  end
  return {0, math.max(0, limit - count), wait}
end
for _ = 1, cost do
  redis.call('ZADD', KEYS[1], ARGV[4], ARGV[4])
end
redis.call('PEXPIRE', KEYS[1], window)
return {1, limit - count - cost, 0}
