package e2e

import (
	"bufio"
	"context"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/sim/lab/internal/labtest"
)

var update = flag.Bool("update", false, "write the outputs into README and docs")

// reader does what README and docs say, line by line, in a shell, where `go tool mage`
// and kubectl are the user's.
type reader struct {
	*user
	heard map[string][]string // what each line that was typed printed, each time
	env   []string            // beside that of the test
}

// TestPages types the commands of README and docs as they stand there. The lines of the
// README are typed in its order; a command that no life of this test types has a row in
// untyped, which says why.
func TestPages(t *testing.T) {
	t.Parallel()
	r := &reader{user: newUserOf(t, labctl.Guests{}), heard: map[string][]string{}} // whose lab is the default one
	r.programs(t)
	t.Run("two commands", r.twoCommands)
	t.Run("your own host", r.yourOwnHost)
	t.Run("the lab", r.theLab)
	r.saidNoSecrets(t)
	r.shows(t)
	var missed []string
	rows := map[string]bool{}
	for _, c := range pageCommands(t) {
		row := slices.IndexFunc(untyped, func(u untypedRow) bool { return u.line.MatchString(c.line) })
		if row >= 0 {
			rows[untyped[row].line.String()] = true
		} else if r.heard[c.line] == nil {
			missed = append(missed, c.page+": "+c.line)
		}
	}
	assert.Empty(t, missed, "nothing types these, and no row says why")
	for _, u := range untyped {
		assert.True(t, rows[u.line.String()], "no page says %s any more", u.line)
	}
}

// reports leaves a page about each command that can, and serves one.
func (r *reader) reports(t *testing.T) {
	t.Helper()
	for line, want := range map[string]string{
		"go tool mage cluster:up -report=up.html":        "steps are up to date.",
		"go tool mage gpu:verify -report=gpus.html":      "8 of 8 GPUs passed",
		"go tool mage cluster:status -report=today.html": "8 of 8 GPUs passed",
		"go tool mage hub:verify -report=hub.html":       "gpu-1",
	} {
		assert.Contains(t, r.says(t, line), "Report: ")
		_, file, _ := strings.Cut(line, "-report=")
		page, err := os.ReadFile(filepath.Join(r.dir, file))
		require.NoError(t, err)
		assert.Contains(t, string(page), want, line)
	}
	r.interrupted(t, "go tool mage cluster:watch", "is here until you press Ctrl-C", nil)
}

// programs puts the user's `go tool mage`, and a kubectl, before all others.
func (r *reader) programs(t *testing.T) {
	t.Helper()
	require.NoError(t, os.Mkdir(filepath.Join(r.dir, "bin"), 0o700))
	compiler, err := exec.LookPath("go") // the lab is built with it
	require.NoError(t, err)
	r.write(t, "bin/go", "#!/bin/sh\n[ \"$1 $2\" = \"tool mage\" ] || exec "+compiler+" \"$@\"\nshift 2\nexec "+r.mage+" \"$@\"\n")
	r.write(t, "bin/kubectl", "#!/bin/sh\nexec "+labtest.Binary(t, labtest.Real())+" kubectl \"$@\"\n")
	for _, p := range []string{"go", "kubectl"} {
		require.NoError(t, os.Chmod(filepath.Join(r.dir, "bin", p), 0o700))
	}
}

// environment is that of the user's shell.
func (r *reader) environment() []string {
	return slices.Concat(os.Environ(), r.env, []string{"PATH=" + filepath.Join(r.dir, "bin") + ":" + os.Getenv("PATH")})
}

// says types one line. What is asked for on a terminal is agreed to by flag.
func (r *reader) says(t *testing.T, line string, agreed ...string) string {
	t.Helper()
	said, code := r.ends(t, line, agreed...)
	require.Zero(t, code, "%s\n%s", line, said)
	return said
}

// ends is says for a command whose exit code tells something.
func (r *reader) ends(t *testing.T, line string, agreed ...string) (said string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	sh := exec.CommandContext(ctx, "sh", "-c", strings.Join(append([]string{line}, agreed...), " "))
	sh.Dir, sh.Env = r.dir, r.environment()
	begun := time.Now()
	out, err := sh.CombinedOutput()
	r.said.Write(out)
	r.heard[line] = append(r.heard[line], banner.ReplaceAllString(string(out), ""))
	require.NotNil(t, sh.ProcessState, "%s: %v", line, err)
	t.Logf("%s: exit %d in %s", line, sh.ProcessState.ExitCode(), time.Since(begun).Round(100*time.Millisecond))
	return string(out), sh.ProcessState.ExitCode()
}

// interrupted types what goes on until Ctrl-C, once it has said what is wanted of it.
func (r *reader) interrupted(t *testing.T, line, want string, meanwhile func(said string)) {
	t.Helper()
	r.heard[line] = append(r.heard[line], "")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	sh := exec.CommandContext(ctx, "sh", "-c", "exec "+line)
	sh.Dir, sh.Env = r.dir, r.environment()
	said, err := sh.StderrPipe()
	require.NoError(t, err)
	data, err := sh.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, sh.Start())
	lines := bufio.NewScanner(said)
	for lines.Scan() && !strings.Contains(lines.Text(), want) {
		r.said.WriteString(lines.Text())
	}
	assert.Contains(t, lines.Text(), want)
	if meanwhile != nil {
		printed, err := bufio.NewReader(data).ReadString('\n')
		require.NoError(t, err)
		meanwhile(strings.TrimSpace(printed))
	}
	require.NoError(t, sh.Process.Signal(os.Interrupt))
	_, err = io.Copy(io.Discard, said)
	require.NoError(t, err)
	require.NoError(t, sh.Wait(), "an interrupt is how it ends")
}

// chartStep is a line that says that a release was changed.
var chartStep = regexp.MustCompile(`(?m) (chart/\S+) +done`)

// twoCommands has no file, so that it is the example that comes up, with its notebooks.
// Again nothing is to do, and a profile that changes changes the hub's release alone.
func (r *reader) twoCommands(t *testing.T) {
	require.NoError(t, os.Remove(filepath.Join(r.dir, "cluster.yaml")))
	said := r.says(t, "go tool mage cluster:up")
	for _, part := range []string{"nfs", "scratch", "metallb", "cert-manager", "rancher", "monitoring", "dcgm-exporter", "jupyterhub"} {
		assert.Contains(t, said, "chart/"+part)
	}
	r.says(t, "go tool mage gpu:verify")
	assert.Contains(t, r.says(t, "go tool mage gpu:verify -level=full -junit=gpu.xml"), "54 checks: 52 passed, 2 skipped")
	assert.FileExists(t, filepath.Join(r.dir, "gpu.xml"))
	assert.Contains(t, r.says(t, "go tool mage gpu:verify -level=burn -burn=5s"), "8 of 8 GPUs computed")
	nodes := r.says(t, "kubectl --kubeconfig=.homelab/eight-a100/kubeconfig get nodes")
	assert.Equal(t, 7, strings.Count(nodes, " Ready "), nodes)
	assert.Contains(t, r.says(t, "go tool mage cluster:up"), "Nothing to change")
	r.says(t, "go tool mage cluster:status")
	assert.Contains(t, r.says(t, "go tool mage cluster:doctor"), "7 nodes")
	r.conformance(t)
	r.reports(t)
	r.says(t, "go tool mage hub:verify")
	r.sick(t)

	file := strings.Replace(example(t), "limit: 2}", "limit: 3}", 1)
	require.NotEqual(t, example(t), file)
	r.write(t, "cluster.yaml", file)
	said = r.says(t, "go tool mage cluster:up")
	var changed []string
	for _, step := range chartStep.FindAllStringSubmatch(said, -1) {
		changed = append(changed, step[1])
	}
	assert.Equal(t, []string{"chart/jupyterhub"}, changed, said)
	r.says(t, "go tool mage cluster:plan")
	said, code := r.ends(t, "go tool mage cluster:down")
	assert.Equal(t, 4, code, "with nobody to ask it refuses: %s", said)
	r.says(t, "go tool mage cluster:down", "-yes")
}

// conformance compares the example with the CNCF's requirements, some of which it does not meet.
func (r *reader) conformance(t *testing.T) {
	for line, want := range map[string]string{
		"go tool mage cluster:conformance":       "secure_accelerator_access    MUST    not shown",
		"go tool mage cluster:conformance -run":  "secure_accelerator_access    MUST    failed",
		"go tool mage cluster:conformance -json": `"id":"ai_service_metrics","area":"observability","level":"MUST","result":"passed"`,
	} {
		said, code := r.ends(t, line)
		assert.Equal(t, 2, code, said)
		assert.Contains(t, said, want)
	}
}

// sick has something wrong with the cluster, which the doctor finds, and packs what a helper needs.
func (r *reader) sick(t *testing.T) {
	const kubectl = "kubectl --kubeconfig=.homelab/eight-a100/kubeconfig "
	r.says(t, kubectl+"cordon wk-gpu2")
	assert.Contains(t, r.says(t, "go tool mage cluster:doctor"), "node-cordoned  node wk-gpu2", "a warning, and no error")
	said := r.says(t, "go tool mage cluster:support", "-out=help.tar.gz")
	assert.Contains(t, said, "machines/wk-gpu1.txt")
	info, err := os.Stat(filepath.Join(r.dir, "help.tar.gz"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())
	r.says(t, kubectl+"uncordon wk-gpu2")
}

// yourOwnHost is README's file, with the lab for a host.
func (r *reader) yourOwnHost(t *testing.T) {
	defer func() { r.env = nil }()
	require.NoError(t, os.Remove(filepath.Join(r.dir, "cluster.yaml")))
	r.says(t, "go tool mage cluster:init -endpoint=lab -yes")
	r.says(t, "go tool mage cluster:validate")
	r.write(t, "cluster.yaml", readmeFile(t))
	r.says(t, "go tool mage cluster:validate")
	said, code := r.ends(t, "go tool mage host:check")
	assert.LessOrEqual(t, code, 1, "warnings only: %s", said)
	r.ends(t, "go tool mage host:check -json")
	r.says(t, "go tool mage host:role")
	r.says(t, "go tool mage cluster:up")
	r.says(t, "go tool mage cluster:plan")
	assert.Contains(t, r.says(t, "go tool mage gpu:list"), "gpu1")
	r.says(t, "go tool mage node:replace -node=gpu1", "-yes")
	r.says(t, "go tool mage node:upgrade -node=gpu1", "-yes")
	assert.Contains(t, r.says(t, "go tool mage node:upgrade", "-yes"), "All nodes have the newest packages.")
	r.says(t, "go tool mage hub:verify")
	r.interrupted(t, "go tool mage hub:open", "https://hub.home.example is available here until you press Ctrl-C", func(address string) {
		notebook(t, address, "any", "gpu")
	})
	r.models(t)
	r.databases(t)
	r.disks(t)
	r.says(t, "go tool mage hub:profiles")
	assert.Contains(t, r.says(t, "go tool mage images:list"), "hub profile gpu")
	r.says(t, "go tool mage images:list -names")
	r.env = append(r.env, "KUBECONFIG="+filepath.Join(r.dir, ".homelab", "home", "kubeconfig"))
	r.says(t, "kubectl get storageclass")
	r.says(t, "go tool mage template:list")
	r.says(t, "go tool mage template:prune", "-yes")

	r.write(t, "cluster.yaml", readmeFile(t)+
		"fleet: {repo: https://git.example.com/infra.git, username: robot, password: env:GIT_TOKEN, default: fleet}\n")
	r.env = append(r.env, "GIT_TOKEN=a token")
	r.says(t, "go tool mage fleet:render -out=DIR")
	r.says(t, "go tool mage fleet:lint -dir=DIR")
	r.write(t, "cluster.yaml", readmeFile(t))
	r.says(t, "go tool mage fleet:lint -dir=.")
	r.says(t, "go tool mage cluster:down", "-yes")
}

// models adds a model to the file, with which it answers three commands later, and takes it out again.
func (r *reader) models(t *testing.T) {
	t.Helper()
	r.write(t, "cluster.yaml", readmeFile(t)+pageModels(t))
	assert.Contains(t, r.says(t, "go tool mage cluster:up"), "models")
	assert.Contains(t, r.says(t, "go tool mage model:list"), "http://qwen.models.svc:8000/v1")
	said := r.says(t, "go tool mage model:verify")
	assert.Contains(t, said, "This is the lab: no model was loaded")
	assert.Contains(t, said, "1 of 1 models answer.")

	r.write(t, "cluster.yaml", readmeFile(t)+pageFile(t, "models", "modelGateway"))
	assert.Contains(t, r.says(t, "go tool mage cluster:up"), "key/robotics: qwen, 60 requests a minute, 200000 tokens a minute")
	assert.Contains(t, r.says(t, "go tool mage cluster:up"), "Nothing to change")
	assert.Contains(t, r.says(t, "go tool mage platform:passwords", "-yes"), "key alice for models")
	assert.Contains(t, r.says(t, "go tool mage model:verify"), "1 of 1 models answer.")
	assert.Regexp(t, `\(administrator\) +qwen +1 `, r.says(t, "go tool mage model:use"))
	r.says(t, "go tool mage model:use -days=7 -json")
	hash, err := bcrypt.GenerateFromPassword([]byte("secret of ada"), 10)
	require.NoError(t, err)
	r.env = append(r.env, "ADA_HASH="+string(hash))
	r.write(t, "cluster.yaml", readmeFile(t)+strings.TrimPrefix(pageFile(t, "models", "tls: self-signed\nlogin"), "tls: self-signed\n"))
	assert.Contains(t, r.says(t, "go tool mage cluster:up"), "key/chat: qwen")
	assert.Contains(t, r.says(t, "go tool mage cluster:up"), "Nothing to change")
	r.write(t, "cluster.yaml", readmeFile(t)+pageModels(t))
	said, code := r.ends(t, "go tool mage cluster:up")
	assert.NotZero(t, code, "nobody agreed")
	assert.Contains(t, said, "model-gateway") // whose volume is of a class that retains it
	assert.Contains(t, said, "model-chat")
	r.write(t, "cluster.yaml", readmeFile(t))
	r.says(t, "go tool mage cluster:up", "-yes")
}

// disks adds the page's volumes on Proxmox to the file, with the lab's token, and takes them out again. cluster:up
// tries them on each node.
func (r *reader) disks(t *testing.T) {
	t.Helper()
	lab, err := labctl.Find(t.Context(), r.lab())
	require.NoError(t, err)
	section := regexp.MustCompile(`(?m)^  proxmox: .*\n`).FindString(pageFile(t, "storage", "storage:\n  default: nfs\n  nfs: .*\n  proxmox"))
	section = strings.NewReplacer("local-zfs", "vmdata", "homelab@pve!csi", lab.TokenID, "env:CSI_SECRET", "file:"+lab.TokenFile, ", ca: pve-root-ca.pem", "").Replace(section)
	file := readmeFile(t)
	require.Contains(t, file, "storage:\n")
	r.write(t, "cluster.yaml", strings.Replace(file, "storage:\n", "storage:\n"+section, 1))
	assert.Contains(t, r.says(t, "go tool mage host:role"), "For storage.proxmox")
	assert.Contains(t, r.says(t, "go tool mage cluster:up"), "proxmox-csi")
	assert.Contains(t, r.says(t, "go tool mage cluster:up"), "Nothing to change")
	r.write(t, "cluster.yaml", file)
	r.says(t, "go tool mage cluster:up", "-yes")
}

// databases adds the databases of the page to the file, and takes them out again: their data only when asked.
func (r *reader) databases(t *testing.T) {
	t.Helper()
	r.write(t, "cluster.yaml", readmeFile(t)+pageFile(t, "platform", "postgres"))
	assert.Contains(t, r.says(t, "go tool mage cluster:up"), "postgres")
	assert.Contains(t, r.says(t, "go tool mage cluster:up"), "Nothing to change")
	assert.Contains(t, r.says(t, "go tool mage platform:passwords", "-yes"), "user keycloak of the database keycloak")
	assert.Regexp(t, `postgres +database keycloak answers +passed`, r.says(t, "go tool mage platform:verify"))
	r.says(t, "go tool mage platform:verify -part=postgres -junit=platform.xml")
	kubeconfig := r.env
	r.env = append(r.env, "KUBECONFIG="+filepath.Join(r.dir, ".homelab", "home", "kubeconfig"))
	assert.Contains(t, r.says(t, "kubectl get clusters.postgresql.cnpg.io --all-namespaces"), "Cluster in healthy state")

	r.env = append(r.env, "BACKUP_ACCESS_KEY=AKIAEXAMPLE", "BACKUP_SECRET_KEY=a secret key")
	backedUp := strings.Replace(pageFile(t, "platform", "postgres"), "postgres:\n", "postgres:\n  backup: true\n", 1)
	r.write(t, "cluster.yaml", readmeFile(t)+backedUp+pageFile(t, "platform", "backup"))
	assert.Contains(t, r.says(t, "go tool mage cluster:up"), "postgres-backup")
	assert.Contains(t, r.says(t, "kubectl -n login get backups.postgresql.cnpg.io"), "completed")
	assert.Contains(t, r.says(t, "kubectl -n login get objectstores.barmancloud.cnpg.io -o yaml"), "lastSuccessfulBackupTime")
	assert.Contains(t, r.says(t, "go tool mage cluster:up"), "Nothing to change")
	r.write(t, "cluster.yaml", readmeFile(t)+pageFile(t, "platform", "postgres"))
	r.says(t, "go tool mage cluster:up", "-yes") // the plugin goes with the last database that uses it
	assert.Contains(t, r.says(t, "go tool mage cluster:up"), "Nothing to change")
	r.env = kubeconfig

	r.write(t, "cluster.yaml", readmeFile(t))
	said, _ := r.ends(t, "go tool mage cluster:up", "-yes")
	assert.Contains(t, said, "part postgres is no longer in the file but stays")
	r.write(t, "cluster.yaml", readmeFile(t)+"postgres: true\n")
	said, code := r.ends(t, "go tool mage cluster:up")
	assert.NotZero(t, code, "nobody agreed")
	assert.Contains(t, said, "login/keycloak")
	r.says(t, "go tool mage cluster:up", "-yes")
	r.write(t, "cluster.yaml", readmeFile(t))
	r.says(t, "go tool mage cluster:up", "-yes")
}

// pageModels is the first file of docs/models.md.
func pageModels(t *testing.T) string { return pageFile(t, "models", "models") }

// pageFile is the block of a page that is a section of the file.
func pageFile(t *testing.T, page, section string) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/" + page + ".md")
	require.NoError(t, err)
	block := regexp.MustCompile("(?s)```yaml\n(" + section + ":.*?)```").FindStringSubmatch(string(text))
	require.NotNil(t, block)
	return block[1]
}

func (r *reader) theLab(t *testing.T) {
	r.says(t, "go tool mage lab:status")
	r.says(t, "go tool mage lab:stop")
	_, code := r.ends(t, "go tool mage lab:status")
	assert.Equal(t, 2, code, "nothing runs")
	r.says(t, "go tool mage lab:start")
	r.says(t, "go tool mage -h cluster:up")
	r.says(t, "go tool mage cluster:up -h")
}

// readmeFile is both of README's pieces of a cluster file, with the lab for the host.
func readmeFile(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../README.md")
	require.NoError(t, err)
	var file strings.Builder
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		if !strings.HasPrefix(block[1], "apiVersion:") {
			file.WriteString(block[1])
		}
	}
	own := regexp.MustCompile(`(?m)^proxmox:\n(  .*\n)+`)
	require.Regexp(t, own, file.String())
	return strings.ReplaceAll(own.ReplaceAllString(file.String(), "proxmox: {endpoint: lab}\n"), "192.168.1.", "10.0.0.")
}
