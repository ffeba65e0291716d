//go:build unix

package addon_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/chart"
)

// TestDatabaseRestore loses a real PostgreSQL and restores it with Barman's programs, called as the plugin calls them
// for our objects: to the last change, and to a point in time of which retention leaves what is needed. Barman's programs
// take a second of a processor each, so every third share has this.
func TestDatabaseRestore(t *testing.T) {
	if !share.OneOf(t, 3, "real databases").Next() {
		return
	}
	programs := postgresPrograms(t)
	store := newBucket(t, "backups", "key-of-bucket", "home")
	site := newDatabases(t, programs, store)

	first := site.made(spec.Database{Name: "tracking"})
	require.NoError(t, first.checkFolder())
	db := first.start(first.initialize())
	db.sql(t, "postgres", fmt.Sprintf("create role %q", first.text("spec", "bootstrap", "initdb", "owner")))
	db.sql(t, "postgres", fmt.Sprintf("create database %q owner %q", first.text("spec", "bootstrap", "initdb", "database"), first.text("spec", "bootstrap", "initdb", "owner")))
	first.backUp(db)
	db.sql(t, "tracking", "create table runs (name text); insert into runs values ('in a backup')")
	first.backUp(db)
	db.sql(t, "tracking", "insert into runs values ('in the log')")
	at := db.sql(t, "tracking", `select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`)
	db.sql(t, "tracking", "insert into runs values ('a mistake')")
	first.backUp(db)
	db.archived(t)
	db.lose(t)

	// The first two backups are from before the window, and its beginning needs the second.
	old := first.backups()
	require.Len(t, old, 3)
	for i, days := range []int{70, 60} {
		store.change(t, "lab-databases/tracking/base/"+old[i]+"/backup.info", func(info string) string {
			return regexp.MustCompile(`(?m)^(begin_time|end_time)=.*$`).ReplaceAllString(info, "$1="+time.Now().AddDate(0, 0, -days).Format(time.RFC3339))
		})
	}
	first.deleteOld()
	assert.Equal(t, old[1:], first.backups())

	assert.ErrorContains(t, site.made(spec.Database{Name: "tracking"}).checkFolder(), "Expected empty archive", "written again without restore")
	wrong := site.made(spec.Database{Name: "tracking", Archive: "tracking-2", Restore: &spec.Restore{Archive: "trackin"}})
	assert.Empty(t, wrong.list(wrong.source()))
	last := site.made(spec.Database{Name: "tracking", Archive: "tracking-2", Restore: &spec.Restore{Archive: "tracking"}})
	require.NoError(t, last.checkFolder())
	db = last.start(last.restore())
	assert.Equal(t, "in a backup, in the log, a mistake", db.rows(t))
	db.archived(t)
	assert.NotEmpty(t, store.keys("lab-databases/tracking-2/wals/"), "its changes go into its own folder")
	assert.ErrorContains(t, site.made(spec.Database{Name: "other", Archive: "tracking-2"}).checkFolder(), "Expected empty archive")
	db.lose(t)

	before := site.made(spec.Database{Name: "tracking", Archive: "tracking-3", Restore: &spec.Restore{Archive: "tracking", At: at}})
	db = before.start(before.restore())
	assert.Equal(t, "in a backup, in the log", db.rows(t))
	db.lose(t)
}

// postgresPrograms is the folder of the server's programs.
func postgresPrograms(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	require.NoError(t, err)
	if _, err := exec.LookPath("barman-cloud-backup"); err == nil && len(found) > 0 {
		return found[len(found)-1]
	}
	if os.Getenv("CI") != "" {
		t.Fatal("there is no PostgreSQL, or no Barman: apt-get install postgresql barman-cli-cloud")
	}
	t.Skip("there is no PostgreSQL, or no Barman")
	return ""
}

// databases is where servers run: a folder of the user that they run as, since PostgreSQL refuses root.
type databases struct {
	t        *testing.T
	programs string
	folder   string
	as       *syscall.Credential // nil: who runs the test
	store    spec.Backup
}

func newDatabases(t *testing.T, programs string, b *bucket) *databases {
	t.Helper()
	folder, err := os.MkdirTemp("", "db") // short: it has a socket
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(folder)) })
	d := &databases{t: t, programs: programs, folder: folder, store: spec.Backup{Endpoint: b.URL, Region: "home", Bucket: "backups", Prefix: "lab", CAFile: written(t, b.ca()),
		AccessKey: told(t, "key-of-bucket"), SecretKey: told(t, "secret-of-bucket"), Schedule: "0 3 * * *", Retention: 30 * 24 * time.Hour}}
	if os.Geteuid() != 0 {
		return d
	}
	u, err := user.Lookup("postgres")
	require.NoError(t, err)
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	require.NoError(t, err)
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	require.NoError(t, err)
	require.NoError(t, os.Chown(folder, int(uid), int(gid))) //nolint:gosec // 32 bits
	d.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return d
}

// run runs a program with variables beside PATH, and returns what it says.
func (d *databases) run(env []string, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(d.t.Context(), program, args...) //nolint:gosec // ours
	cmd.Dir, cmd.Env = d.folder, append([]string{"PATH=" + d.programs + ":" + os.Getenv("PATH"), "HOME=" + d.folder, "LC_ALL=C.UTF-8"}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: d.as}
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %q: %w: %s%s", program, args, err, out, said.String())
	}
	return strings.TrimSpace(string(out)), nil
}

func (d *databases) must(env []string, program string, args ...string) string {
	d.t.Helper()
	out, err := d.run(env, program, args...)
	require.NoError(d.t, err)
	return out
}

// cnpg is a database's objects, and what the operator and its plugin do with them: the arguments are those of
// cloudnative-pg/barman-cloud v0.5.1 (pkg/command, pkg/backup, pkg/archiver) and cloudnative-pg/plugin-barman-cloud
// v0.13.0 (internal/cnpgi/restore, internal/cnpgi/operator/config).
type cnpg struct {
	*databases
	cluster *unstructured.Unstructured
	objects []runtime.Object
	secrets []chart.Secret
}

// made renders a database of a file.
func (d *databases) made(one spec.Database) cnpg {
	d.t.Helper()
	one.Namespace, one.Instances, one.Size = "login", 1, spec.GiB
	r := must(d.t, addon.Postgres{Postgres: &spec.Postgres{Backup: true, Databases: []spec.Database{one}}, Store: &d.store},
		addon.Site{Made: []addon.Recipe{{Part: chart.Part{Name: addon.PostgresBackupName}}}})
	c := cnpg{databases: d, objects: r.After, secrets: r.Secrets}
	c.cluster = c.object(addon.PostgresKind, one.Name)
	return c
}

func (c cnpg) object(kind, name string) *unstructured.Unstructured {
	c.t.Helper()
	for _, o := range c.objects {
		if u := o.(*unstructured.Unstructured); u.GetKind() == kind && u.GetName() == name {
			return u
		}
	}
	require.Fail(c.t, "there is no "+kind+" "+name)
	return nil
}

func (c cnpg) text(path ...string) string { return text(c.cluster.Object, path...) }

func text(object map[string]any, path ...string) string {
	out, _, _ := unstructured.NestedString(object, path...)
	return out
}

// entry is the entry of that name of a list of the Cluster.
func (c cnpg) entry(list, name string) map[string]any {
	c.t.Helper()
	all, _, err := unstructured.NestedSlice(c.cluster.Object, "spec", list)
	require.NoError(c.t, err)
	for _, e := range all {
		if m := e.(map[string]any); m["name"] == name {
			return m
		}
	}
	require.Fail(c.t, list+" has no "+name)
	return nil
}

// destination is a folder of a bucket, and how to get there.
type destination struct {
	config         map[string]any
	options        []string // of every program of Barman's
	folder, server string
	env            []string
}

// own is where a database's changes go.
func (c cnpg) own() destination {
	c.t.Helper()
	p := c.entry("plugins", addon.PostgresPlugin)
	assert.Equal(c.t, true, p["isWALArchiver"])
	return c.destination(p)
}

// source is what a database is restored from.
func (c cnpg) source() destination {
	c.t.Helper()
	plugin, _, err := unstructured.NestedMap(c.entry("externalClusters", c.text("spec", "bootstrap", "recovery", "source")), "plugin")
	require.NoError(c.t, err)
	assert.Equal(c.t, addon.PostgresPlugin, plugin["name"])
	return c.destination(plugin)
}

func (c cnpg) destination(plugin map[string]any) destination {
	c.t.Helper()
	store := c.object("ObjectStore", text(plugin, "parameters", "barmanObjectName"))
	require.Equal(c.t, c.cluster.GetNamespace(), store.GetNamespace())
	config, _, err := unstructured.NestedMap(store.Object, "spec", "configuration")
	require.NoError(c.t, err)
	d := destination{config: config, folder: text(config, "destinationPath"), server: text(plugin, "parameters", "serverName"),
		options: []string{"--endpoint-url", text(config, "endpointURL"), "--cloud-provider", "aws-s3"}}
	for variable, key := range map[string]string{"AWS_ACCESS_KEY_ID": "accessKeyId", "AWS_SECRET_ACCESS_KEY": "secretAccessKey", "AWS_DEFAULT_REGION": "region"} {
		d.env = append(d.env, variable+"="+c.secret(store.GetNamespace(), config, "s3Credentials", key))
	}
	ca := filepath.Join(c.folder, "ca.crt")
	require.NoError(c.t, os.WriteFile(ca, []byte(c.secret(store.GetNamespace(), config, "endpointCA")), 0o644)) //nolint:gosec // public
	d.env = append(d.env, "AWS_CA_BUNDLE="+ca)
	more, _, err := unstructured.NestedSlice(store.Object, "spec", "instanceSidecarConfiguration", "env")
	require.NoError(c.t, err)
	for _, e := range more {
		d.env = append(d.env, text(e.(map[string]any), "name")+"="+text(e.(map[string]any), "value"))
	}
	return d
}

// secret is the value of a key of a Secret that the configuration names.
func (c cnpg) secret(namespace string, config map[string]any, path ...string) string {
	c.t.Helper()
	for _, s := range c.secrets {
		if s.Namespace == namespace && s.Name == text(config, append(path, "name")...) {
			value, there := s.Data[text(config, append(path, "key")...)]
			require.True(c.t, there)
			return value.Reveal()
		}
	}
	require.Fail(c.t, "no Secret of "+strings.Join(path, "."))
	return ""
}

// checkFolder is what comes before the first change is archived, and before a restore.
func (c cnpg) checkFolder() error {
	d := c.own()
	_, err := c.run(d.env, "barman-cloud-check-wal-archive", append(d.options, d.folder, d.server)...)
	return err
}

func (c cnpg) initialize() string {
	data := filepath.Join(c.folder, "data")
	c.must(nil, "initdb", "--username=postgres", "--auth=trust", "--no-sync", data)
	return data
}

func (c cnpg) backUp(s *server) {
	c.t.Helper()
	scheduled := c.object("ScheduledBackup", c.cluster.GetName())
	assert.Equal(c.t, c.cluster.GetName(), text(scheduled.Object, "spec", "cluster", "name"))
	assert.Equal(c.t, addon.PostgresPlugin, text(scheduled.Object, "spec", "pluginConfiguration", "name"))
	d := c.own()
	args := append([]string{"--user", "postgres", "--name", "backup-" + time.Now().Format("20060102150405"), "--" + text(d.config, "data", "compression")}, d.options...)
	// The plugin waits for a checkpoint in its turn: that takes minutes.
	c.must(append(d.env, s.env()...), "barman-cloud-backup", append(args, "--immediate-checkpoint", d.folder, d.server)...)
}

// backups are the IDs of a folder's backups, the oldest first.
func (c cnpg) backups() []string {
	c.t.Helper()
	var out []string
	for _, b := range c.list(c.own()) {
		out = append(out, b.ID)
	}
	return out
}

type backup struct {
	ID       string `json:"backup_id"`
	EndTime  string `json:"end_time"`
	BeginWAL string `json:"begin_wal"`
}

func (b backup) ended(t *testing.T) time.Time {
	t.Helper()
	at, err := time.Parse(time.ANSIC, b.EndTime)
	require.NoError(t, err)
	return at
}

func (c cnpg) list(d destination) []backup {
	c.t.Helper()
	var out struct {
		List []backup `json:"backups_list"`
	}
	require.NoError(c.t, json.Unmarshal([]byte(c.must(d.env, "barman-cloud-backup-list", append([]string{"--format", "json"}, append(d.options, d.folder, d.server)...)...)), &out))
	slices.SortFunc(out.List, func(a, b backup) int { return strings.Compare(a.ID, b.ID) })
	return out.List
}

// deleteOld deletes what the policy of the ObjectStore does not keep (ParsePolicy, pkg/utils/barman.go).
func (c cnpg) deleteOld() {
	c.t.Helper()
	policy := text(c.object("ObjectStore", text(c.entry("plugins", addon.PostgresPlugin), "parameters", "barmanObjectName")).Object, "spec", "retentionPolicy")
	days, isDays := strings.CutSuffix(policy, "d")
	require.True(c.t, isDays, policy)
	d := c.own()
	c.must(d.env, "barman-cloud-backup-delete", append(d.options, "--retention-policy", "RECOVERY WINDOW OF "+days+" DAYS", d.folder, d.server)...)
}

// restore gets the backup that the Cluster begins with, and returns the folder for its server.
func (c cnpg) restore() string {
	c.t.Helper()
	d, data := c.source(), filepath.Join(c.folder, "data")
	var from backup
	at := c.text("spec", "bootstrap", "recovery", "recoveryTarget", "targetTime")
	for _, b := range c.list(d) {
		if until, err := time.Parse(time.RFC3339, at); at == "" || err == nil && !b.ended(c.t).After(until) {
			from = b
		}
	}
	require.NotEmpty(c.t, from.ID, "no target backup found")
	c.must(d.env, "barman-cloud-restore", append(d.options, d.folder, d.server, from.ID, data)...)
	c.must(nil, "touch", filepath.Join(data, "recovery.signal"))
	return data
}

// start starts a server, which archives its changes, and waits until it takes some.
func (c cnpg) start(data string) *server {
	c.t.Helper()
	d := c.own()
	archive := append([]string{"barman-cloud-wal-archive", "--" + text(d.config, "wal", "compression")}, append(d.options, d.folder, d.server, "%p")...)
	args := []string{"-D", data, "-c", "listen_addresses=", "-c", "unix_socket_directories=" + c.folder, "-c", "fsync=off",
		"-c", "archive_mode=on", "-c", "archive_command=" + strings.Join(archive, " ")}
	if c.text("spec", "bootstrap", "recovery", "source") != "" {
		s := c.source()
		args = append(args, "-c", "recovery_target_action=promote", "-c", "recovery_target_time="+targetTime(c.t, c.text("spec", "bootstrap", "recovery", "recoveryTarget", "targetTime")),
			"-c", "restore_command="+strings.Join(append([]string{"barman-cloud-wal-restore"}, append(s.options, s.folder, s.server, "%f", "%p")...), " "))
	}
	s := &server{c.databases, data}
	log := filepath.Join(c.folder, "log")
	c.must(d.env, "pg_ctl", "start", "--wait", "--timeout=300", "--log="+log, "--pgdata="+data, "--options="+quoted(args[2:]))
	c.t.Cleanup(func() {
		if c.t.Failed() {
			said, _ := os.ReadFile(log) //nolint:gosec // ours
			c.t.Logf("%s", said)
		}
		_, _ = c.run(nil, "pg_ctl", "stop", "--mode=immediate", "--pgdata="+data) // which has ended if nothing failed
	})
	require.Eventually(c.t, func() bool { return s.sql(c.t, "postgres", "select pg_is_in_recovery()") == "f" }, 5*time.Minute, 100*time.Millisecond)
	return s
}

// targetTime is a time as the operator writes it for the server, which refuses a Z (ConvertToPostgresFormat,
// cloudnative-pg/machinery, pkg/postgres/time).
func targetTime(t *testing.T, text string) string {
	t.Helper()
	if text == "" {
		return ""
	}
	at, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return at.Format("2006-01-02 15:04:05.000000-07:00")
}

// quoted is arguments for the shell by which pg_ctl starts a server.
func quoted(args []string) string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = "'" + a + "'"
	}
	return strings.Join(out, " ")
}

// server is a PostgreSQL that runs.
type server struct {
	*databases
	data string
}

func (s *server) env() []string { return []string{"PGHOST=" + s.folder, "PGUSER=postgres"} }

func (s *server) sql(t *testing.T, database, statement string) string {
	t.Helper()
	return s.must(s.env(), "psql", "--no-psqlrc", "--tuples-only", "--no-align", "--quiet", "--dbname="+database, "--command="+statement)
}

func (s *server) rows(t *testing.T) string {
	t.Helper()
	return s.sql(t, "tracking", "select string_agg(name, ', ') from runs")
}

// archived waits until all that was written is in the bucket.
func (s *server) archived(t *testing.T) {
	t.Helper()
	wal := s.sql(t, "postgres", "select pg_walfile_name(pg_switch_wal())")
	require.Eventually(t, func() bool { return s.sql(t, "postgres", "select last_archived_wal from pg_stat_archiver") >= wal }, 5*time.Minute, 200*time.Millisecond, wal)
}

// lose ends a server as a power failure does, and deletes its volume.
func (s *server) lose(t *testing.T) {
	t.Helper()
	s.must(nil, "pg_ctl", "stop", "--wait", "--mode=immediate", "--pgdata="+s.data)
	require.NoError(t, os.RemoveAll(s.data))
}
