-- KEYS[1] the identity; where KEYS[2] and KEYS[3] are given, they are the counters of this window
-- and of the one before, else their names are built here from KEYS[1]
-- ARGV[1] limit · ARGV[2] window in ms · ARGV[3] cost · ARGV[4] now in ms
-- ARGV[5] how long a counter is kept, in ms
-- One call is `window` parts; one of the window before weighs as many as it has ms left to lie within
-- one window's length: whole numbers throughout.
-- Returns {allowed, remaining, wait in ms; -1 for never}.
local limit, window, cost, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local number = math.floor(now / window)
local current, before = KEYS[2], KEYS[3]
if not current then
  current = KEYS[1] .. ':' .. string.format('%.0f', number)
  before = KEYS[1] .. ':' .. string.format('%.0f', number - 1)
end
local count = tonumber(redis.call('GET', current)) or 0
local last = tonumber(redis.call('GET', before)) or 0
local elapsed = now - number * window
local full, wanted = limit * window, cost * window
local weighted = count * window + last * (window - elapsed)
if weighted + wanted > full then
  local wait = -1
  if cost <= limit then
    if count + cost <= limit then
      -- Until the window before weighs little enough.
      wait = math.ceil((weighted + wanted - full) / last)
    else
      -- Not in this window: until this window itself, by then the one before, weighs little enough.
      wait = window - elapsed + math.ceil((count + cost - limit) * window / count)
    end
  end
  return {0, math.max(0, math.floor((full - weighted) / window)), wait}
end
redis.call('INCRBY', current, cost)
redis.call('PEXPIRE', current, ARGV[5])
return {1, math.floor((full - weighted - wanted) / window), 0}
