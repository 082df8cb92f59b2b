-- A sliding window from two counters: the last window counts for the part of it that is still in sight.
-- KEYS[1]: the caller. ARGV: limit, window in seconds.
-- Answers allowed, limit, remaining, retry after (ms), reset after (ms).
-- A refused caller is told to come back when the counters may have changed enough: at the latest when they are gone.

local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2]) * 1000000
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local index = math.floor(now / window)
local start = index * window

local stored = redis.call('HMGET', KEYS[1], 'window', 'current', 'previous')
local current, previous = 0, 0
if stored[1] then
  local age = index - tonumber(stored[1])
  if age == 0 then
    current, previous = tonumber(stored[2]), tonumber(stored[3])
  elseif age == 1 then
    previous = tonumber(stored[2])
  end
end

local left = start + window - now
local used = current + math.floor(previous * left / window)
if used >= limit then
  -- What must fade away first: of the window before, or of this one once it is the one before.
  local fading, ends = previous, start + window
  if current >= limit then
    fading, ends = current, start + 2 * window
  end
  local room = limit - (current < limit and current or 0)
  local wait = ends - math.ceil(room * window / fading) + 1 - now
  local windows = current > 0 and 2 or 1
  return {0, limit, 0, math.max(1, math.ceil(wait / 1000)), math.ceil((start + windows * window - now) / 1000)}
end

redis.call('HSET', KEYS[1], 'window', index, 'current', current + 1, 'previous', previous)
local reset = math.ceil((start + 2 * window - now) / 1000)
-- A key lives a millisecond longer than its use: some servers drop one at once if its last millisecond has begun.
redis.call('PEXPIRE', KEYS[1], reset + 1)
return {1, limit, limit - used - 1, 0, reset}
