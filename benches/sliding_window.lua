-- A sliding-window limit as it is usually written for Redis: two counters in a hash, weighted by the time.
-- KEYS[1]: the limit's key. ARGV[1]: the limit. ARGV[2]: the window in seconds.
-- Answers {1, units left} if the call is admitted, {0, 0} if not.

local limit = tonumber(ARGV[1])
local window = tonumber(ARGV[2]) * 1000000

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local index = math.floor(now / window)
local elapsed = now - index * window

local stored = redis.call('HMGET', KEYS[1], 'window', 'current', 'previous')
local stored_index = tonumber(stored[1])
local current, previous = 0, 0
if stored_index == index then
  current = tonumber(stored[2])
  previous = tonumber(stored[3])
elseif stored_index == index - 1 then
  previous = tonumber(stored[2])
end

local estimate = math.floor(previous * (window - elapsed) / window) + current
if estimate >= limit then
  return {0, 0}
end

redis.call('HMSET', KEYS[1], 'window', index, 'current', current + 1, 'previous', previous)
redis.call('PEXPIRE', KEYS[1], math.ceil(2 * window / 1000))
return {1, limit - estimate - 1}
