-- KEYS the counters, each with a limit of its own
-- ARGV[1] cost · ARGV[2] window in ms · ARGV[3] and on: the limits, in the order of the keys
-- All are checked before any is charged.
-- Returns {allowed, remaining, wait in ms; -1 for never, ms until all is there again}.
local cost = tonumber(ARGV[1])
local left, wait, never, reset = math.huge, 0, false, 0
for i, key in ipairs(KEYS) do
  local limit = tonumber(ARGV[i + 2])
  local free = limit - (tonumber(redis.call('GET', key)) or 0)
  left = math.min(left, free)
  local ends = math.max(0, redis.call('PTTL', key) + 1)
  reset = math.max(reset, ends)
  if cost > limit then
    never = true
  elseif cost > free then
    wait = math.max(wait, ends)
  end
end
if cost > left then
  return {0, math.max(0, left), never and -1 or wait, reset}
end
for _, key in ipairs(KEYS) do
  redis.call('INCRBY', key, cost)
  if redis.call('PTTL', key) == -1 then
    redis.call('PEXPIRE', key, ARGV[2])
    reset = math.max(reset, tonumber(ARGV[2]) + 1)
  end
end
return {1, left - cost, 0, reset}
