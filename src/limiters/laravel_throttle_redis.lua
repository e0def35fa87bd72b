-- KEYS[1] a hash: start and end of the window (whole seconds), count
-- ARGV[1] now in seconds, with fraction · ARGV[2] now in whole seconds · ARGV[3] window in seconds
-- ARGV[4] limit · ARGV[5] cost; 0 only looks
-- Returns the calls left after this one; the reader of the second script ignores it.
local now, floor, window, limit, cost =
  tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local open = redis.call('HMGET', KEYS[1], 'start', 'end', 'count')
local inside = open[1] and now >= tonumber(open[1]) and now <= tonumber(open[2])
if cost == 0 then
  if inside then return limit - tonumber(open[3]) end
  return limit
end
if inside then
  return limit - redis.call('HINCRBY', KEYS[1], 'count', cost)
end
redis.call('HSET', KEYS[1], 'start', floor, 'end', floor + window, 'count', cost)
redis.call('EXPIRE', KEYS[1], window * 2)
return limit - cost
