# frozen_string_literal: true

# Rails' cache store as published, used as a counter: `ruby cache_store.rb PORT`. Prints what it answered as JSON.

require "json"
require "redis"
require "active_support"
require "active_support/cache"
require "active_support/cache/redis_cache_store"

cache = ActiveSupport::Cache::RedisCacheStore.new(
  url: "redis://127.0.0.1:#{ARGV.first}", namespace: "app", error_handler: ->(exception:, **) { raise exception }
)
window = { expires_in: 1 }

fill = -> { Array.new(5) { cache.increment("limit:{ak_42}", 1, **window) <= 3 } }
first = fill.call
deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 10
while cache.exist?("limit:{ak_42}", raw: true)
  raise "the counter does not expire" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline

  sleep 0.02
end

puts JSON.generate(
  first: first,
  again: fill.call,
  decrement: [cache.increment("count", 10), cache.decrement("count", 3), cache.read("count", raw: true)],
  entries: [
    cache.write("entry", { "a" => 1 }, expires_in: 60),
    cache.read("entry"),
    cache.write("entry", 2, unless_exist: true, expires_in: 60),
    cache.write_multi({ "m:1" => 1, "m:2" => 2 }, expires_in: 60).keys,
    cache.read_multi("m:1", "m:2", "m:3"),
    cache.fetch("made", expires_in: 60) { 5 },
    cache.delete("entry"),
    cache.delete_multi(%w[m:1 m:2 m:3]),
    cache.delete_matched("ma*").nil?,
    cache.exist?("made"),
    cache.clear.nil?,
    cache.exist?("count", raw: true)
  ]
)
