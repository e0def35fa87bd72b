-- KEYS[1] a sorted set: one member per admitted cost unit, scored with its time in µs
-- ARGV[1] limit · ARGV[2] window in µs · ARGV[3] cost · ARGV[4] a name no other call has
-- ARGV[5] now in µs, '' for TIME · ARGV[6] how long the log is kept, in ms
-- Returns {allowed, remaining, wait in ms; -1 for never}.
local limit, window, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local now
if ARGV[5] == '' then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
else
  now = tonumber(ARGV[5])
end
local function score(t) return string.format('%.0f', t) end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', score(now - window))
local count = redis.call('ZCARD', KEYS[1])
if count + cost > limit then
  local wait = -1
  if cost <= limit then
    -- The call fits once the entry at this place has left.
    local place = count + cost - limit - 1
    local entry = redis.call('ZRANGE', KEYS[1], place, place, 'WITHSCORES')
    wait = math.max(0, math.ceil((tonumber(entry[2]) + window - now) / 1000))
  end
  return {0, math.max(0, limit - count), wait}
end
for i = 1, cost do
  redis.call('ZADD', KEYS[1], score(now), ARGV[4] .. ':' .. i)
end
redis.call('PEXPIRE', KEYS[1], ARGV[6])
return {1, limit - count - cost, 0}
