# A Rails application in one file: notes that are created, updated, rolled back and read, through Active Record and through requests.
#
# Loading and the busy handler are what an initializer would do (config/initializers/holdfast.rb); models and controllers know nothing of it.
require "sqlite3"
loader = SQLite3::Database.new(":memory:")
loader.enable_load_extension(true)
loader.load_extension(ENV.fetch("HOLDFAST_SQLITE_SO"))
loader.close

require "action_controller/railtie"
require "active_record/railtie"

ENV["DATABASE_URL"] = "sqlite3:#{ARGV.fetch(0)}"

class App < Rails::Application
  config.root = File.dirname(ARGV.fetch(0))
  config.eager_load = false
  config.logger = Logger.new(IO::NULL)
  config.secret_key_base = "x" * 64
  config.hosts.clear
  config.consider_all_requests_local = true
  routes.append do
    post "/notes" => "notes#create"
    get "/notes" => "notes#index"
  end
end

# A thread that waits for another's transaction lets that one run. `timeout:` in database.yml does not: with this gem SQLite sleeps while it
# holds Ruby's lock, so that the other thread cannot commit, and the wait ends in SQLITE_BUSY.
ActiveSupport.on_load(:active_record_sqlite3adapter) do
  prepend(Module.new do
    private def configure_connection
      super
      @connection.busy_handler { |tries| sleep 0.001; tries < 5000 }
    end
  end)
end

class Note < ActiveRecord::Base; end

class NotesController < ActionController::API
  def create
    render json: Note.create!(text: params.require(:text))
  end

  def index
    render json: { count: Note.count }
  end
end

App.initialize!

$acknowledged = 0
def commits(n = 1)
  yield
  $acknowledged += n
end

def check(what, ok)
  abort "not so: #{what}" unless ok
end

db = ActiveRecord::Base.connection
check "journal_mode", db.select_value("PRAGMA journal_mode=WAL") == "wal"
check "holdfast_ack", db.select_value("PRAGMA holdfast_ack") == "archive"
commits { db.create_table(:notes) { |t| t.string :text } }

http = Rack::MockRequest.new(App)
20.times do |i|
  commits { check "POST /notes", http.post("/notes", params: { text: "note #{i}" }).status == 200 }
end
commits { Note.find_by!(text: "note 3").update!(text: "changed") }
commits do
  Note.transaction do
    Note.create!(text: "one of two")
    Note.create!(text: "two of two")
  end
end
Note.transaction do
  Note.create!(text: "never")
  raise ActiveRecord::Rollback
end
commits do
  Note.transaction do
    Note.create!(text: "kept")
    Note.transaction(requires_new: true) do
      Note.create!(text: "never")
      raise ActiveRecord::Rollback
    end
  end
end
commits { Note.find_by!(text: "note 5").destroy! }

# Each is in the middle of its transaction when the others begin theirs.
threads = 4.times.map do |i|
  Thread.new do
    ActiveRecord::Base.connection_pool.with_connection do
      5.times do |j|
        Note.transaction do
          Note.create!(text: "thread #{i} #{j}")
          sleep 0.005
        end
      end
    end
  end
end
commits(20) { threads.each(&:join) }

answer = http.get("/notes")
check "GET /notes: #{answer.body}", JSON.parse(answer.body) == { "count" => 42 }
check "rolled back", !Note.exists?(text: "never")
ActiveRecord::Base.connection_handler.clear_all_connections!
puts "#{$acknowledged} Rails #{Rails.version}, sqlite3 gem #{SQLite3::VERSION}, SQLite #{SQLite3::SQLITE_VERSION}"
