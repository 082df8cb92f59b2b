-- Two limits at once, all or nothing: a sliding window and a token bucket. The keys share a hash tag, so that they
-- lie on one node of a cluster.
-- KEYS: the caller's window, the caller's bucket. ARGV: limit, window in seconds.
-- Answers allowed, the index of the limit that decides, and for each limit: allowed, limit, remaining, retry after (ms),
-- reset after (ms).

local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2]) * 1000000
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- The sliding window.
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
local used = current + math.floor(previous * (start + window - now) / window)

-- The bucket: a token is as many parts as the window has microseconds, and `limit` parts flow back in each of them.
local token = window
local kept = redis.call('HMGET', KEYS[2], 'used', 'at')
local level = 0
if kept[1] then
  level = math.max(0, tonumber(kept[1]) - (now - tonumber(kept[2])) * limit)
end

local function milliseconds(parts)
  return math.ceil(math.ceil(parts / limit) / 1000)
end

local window_admits = used < limit
local bucket_admits = level + token <= limit * token
local allowed = window_admits and bucket_admits
if allowed then
  current, used, level = current + 1, used + 1, level + token
  redis.call('HSET', KEYS[1], 'window', index, 'current', current, 'previous', previous)
  -- A key lives a millisecond longer than its use: some servers drop one at once if its last millisecond has begun.
  redis.call('PEXPIRE', KEYS[1], math.ceil((start + 2 * window - now) / 1000) + 1)
  redis.call('HSET', KEYS[2], 'used', level, 'at', now)
  redis.call('PEXPIRE', KEYS[2], milliseconds(level) + 1)
end

local window_wait = 0
if not window_admits then
  local fading, ends = previous, start + window
  if current >= limit then
    fading, ends = current, start + 2 * window
  end
  local room = limit - (current < limit and current or 0)
  window_wait = math.max(1, math.ceil((ends - math.ceil(room * window / fading) + 1 - now) / 1000))
end
local windows = current > 0 and 2 or (previous > 0 and 1 or 0)
local window_reset = windows > 0 and math.ceil((start + windows * window - now) / 1000) or 0
local bucket_wait = bucket_admits and 0 or milliseconds(level + token - limit * token)
local window_left = math.max(0, limit - used)
local bucket_left = math.floor((limit * token - level) / token)

local binding = bucket_left < window_left and 1 or 0
if not allowed then
  binding = bucket_wait > window_wait and 1 or 0
end
return {
  allowed and 1 or 0, binding,
  {window_admits and 1 or 0, limit, window_left, window_wait, window_reset},
  {bucket_admits and 1 or 0, limit, bucket_left, bucket_wait, milliseconds(level)},
}
