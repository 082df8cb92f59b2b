# frozen_string_literal: true

# rack-attack as published, on a Redis client of its own or on Rails' cache store, against one server.
#
#     ruby rack_attack.rb PORT redis|cache < history.json
#
# The history is an array of [seconds, address, path]; printed is an array of [status, Retry-After, throttles].
# The clock that the library reads is moved to each request's second; the server's clock runs as it does.

require "json"
require "redis"
require "rack"
require "rack/attack"
require "active_support"
require "active_support/cache"
require "active_support/cache/redis_cache_store"

class << Time
  attr_accessor :moved

  def now
    moved ? at(moved) : super
  end
end

port, store = ARGV
url = "redis://127.0.0.1:#{port}"
failing = ->(exception:, **) { raise exception }
Rack::Attack.cache.store =
  store == "redis" ? Redis.new(url: url) : ActiveSupport::Cache::RedisCacheStore.new(url: url, error_handler: failing)

Rack::Attack.throttle("address", limit: 5, period: 10) { |request| request.ip }
Rack::Attack.throttle("login", limit: 3, period: 60) { |request| request.ip if request.path == "/login" }
Rack::Attack.throttle("export", limit: ->(request) { request.ip.end_with?("1") ? 2 : 1 }, period: 3600) do |request|
  request.ip if request.path == "/export"
end
Rack::Attack.blocklist("scanners") do |request|
  Rack::Attack::Fail2Ban.filter("scan:#{request.ip}", maxretry: 3, findtime: 600, bantime: 3000) do
    request.path == "/.env"
  end
end
Rack::Attack.blocklist("logins") do |request|
  Rack::Attack::Allow2Ban.filter("allow:#{request.ip}", maxretry: 8, findtime: 600, bantime: 3000) do
    request.path == "/login"
  end
end

application = Rack::Attack.new(->(_) { [200, {}, ["OK"]] })
answers = JSON.parse($stdin.read).map do |seconds, address, path|
  Time.moved = seconds
  environment = Rack::MockRequest.env_for(path, "REMOTE_ADDR" => address)
  status, headers, = application.call(environment)
  data = environment["rack.attack.throttle_data"] || {}
  [status, headers["Retry-After"], data.transform_values { |throttle| throttle[:count] }]
end
puts JSON.generate(answers)
