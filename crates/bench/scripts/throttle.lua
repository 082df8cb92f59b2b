-- The generic cell rate algorithm: one number a caller, the time at which all that was admitted would have been earned.
-- It is kept as whole microseconds and a fraction in parts of 1/count of one, so that nothing is lost to rounding.
-- KEYS[1]: the caller. ARGV: limit, count, period in seconds (count calls a period, at most limit at once).
-- Answers allowed, limit, remaining, retry after (ms), reset after (ms).

local limit, count, interval = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]) * 1000000
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- How far the arrival time lies ahead of now, in parts of a microsecond: `interval` of them a call.
local ahead = 0
local stored = redis.call('GET', KEYS[1])
if stored then
  local micros, part = string.match(stored, '^(%d+):(%d+)$')
  ahead = math.max(0, (tonumber(micros) - now) * count + tonumber(part))
end

local function milliseconds(parts)
  return math.ceil(math.ceil(parts / count) / 1000)
end

local after = ahead + interval
if after > limit * interval then
  return {0, limit, 0, milliseconds(after - limit * interval), milliseconds(ahead)}
end

local micros = math.floor(after / count)
local reset = milliseconds(after)
-- A key lives a millisecond longer than its use: some servers drop one at once if its last millisecond has begun.
redis.call('SET', KEYS[1], string.format('%.0f:%.0f', now + micros, after - micros * count), 'PX', reset + 1)
return {1, limit, math.floor((limit * interval - after) / interval), 0, reset}
