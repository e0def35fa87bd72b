-- KEYS[1] the theoretical arrival time (TAT), Unix µs
-- ARGV[1] emission interval in µs · ARGV[2] burst · ARGV[3] cost · ARGV[4] now in µs, '' for TIME
-- ARGV[5] how much longer than its state the key is kept, in ms
-- Returns {allowed, remaining, wait in ms; -1 for never}.
local interval, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local now
if ARGV[4] == '' then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
else
  now = tonumber(ARGV[4])
end
local depth = interval * burst
local tat = math.max(tonumber(redis.call('GET', KEYS[1])) or now, now)
local ahead = tat + interval * cost - now
if ahead > depth then
  local wait = -1
  if cost <= burst then
    wait = math.ceil((ahead - depth) / 1000)
  end
  return {0, math.max(0, math.floor((depth - (tat - now)) / interval)), wait}
end
redis.call('SET', KEYS[1], string.format('%.0f', tat + interval * cost), 'PX', math.ceil(ahead / 1000) + tonumber(ARGV[5]))
return {1, math.floor((depth - ahead) / interval), 0}
