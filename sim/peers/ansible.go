package peers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
)

// ansibleSuite is community.proxmox, whose integration targets are roles. It is not a Go
// module: the folder of a checkout is in the environment, and so may be a Python that has
// proxmoxer 2.3 and a pip, which one target installs packages with.
func ansibleSuite() suite {
	return suite{name: "community.proxmox", model: peersModel, targets: []string{
		"proxmox_cluster_firewall_security_group", "proxmox_firewall_info", "proxmox_pool", "proxmox_storage", "proxmox_template",
	}}
}

// The environment in which the suite's parts are found.
const (
	collectionVar = "COMMUNITY_PROXMOX"
	pythonVar     = "COMMUNITY_PROXMOX_PYTHON"
)

// absent says what the suite lacks here; empty if nothing. It sets version.
func (s *suite) absent() string {
	if _, err := exec.LookPath("ansible-playbook"); err != nil {
		return "there is no ansible-playbook"
	}
	folder := os.Getenv(collectionVar)
	text, err := os.ReadFile(filepath.Join(folder, "galaxy.yml"))
	if folder == "" || err != nil {
		return collectionVar + " is not a folder with a checkout of the collection"
	}
	var about struct {
		Version string `yaml:"version"`
	}
	if err := yaml.Unmarshal(text, &about); err != nil {
		return err.Error()
	}
	s.version = about.Version
	return ""
}

// play runs each target against a pvesim.
func (s suite) play(ctx context.Context, o Options, pvesim string) (map[string]outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, suiteTime)
	defer cancel()
	at, end, err := s.site(ctx, o, pvesim)
	if err != nil {
		return nil, err
	}
	defer end()
	root, err := s.collections(at)
	if err != nil {
		return nil, err
	}
	got := map[string]outcome{}
	for _, target := range s.targets {
		play := filepath.Join(at.dir, target+".yml")
		if err := os.WriteFile(play, []byte(playbook(filepath.Join(root, "ansible_collections/community/proxmox/tests/integration/targets"), target)), 0o600); err != nil {
			return nil, err
		}
		cmd := exec.CommandContext(ctx, "ansible-playbook", "-v", "-c", "local", "-i", "localhost,", "-e", "@"+filepath.Join(at.dir, "vars.yml"), play)
		cmd.Env = append(os.Environ(), "ANSIBLE_COLLECTIONS_PATH="+root, "ANSIBLE_NOCOLOR=1", "ANSIBLE_PIPELINING=1", "ANSIBLE_COLLECTIONS_ON_ANSIBLE_VERSION_MISMATCH=warning")
		out, err := cmd.CombinedOutput()
		var failed *exec.ExitError
		if err != nil && !errors.As(err, &failed) {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(o.Dir, "community.proxmox-"+target+".log"), out, 0o600); err != nil {
			return nil, err
		}
		got[target] = played(err == nil, string(out))
	}
	return got, nil
}

// playbook is a target as ansible-test runs it: names resolve to the collection first, unlike
// in a role.
func playbook(targets, target string) string {
	out := "- hosts: localhost\n  collections: [community.proxmox]\n"
	if defaults := filepath.Join(targets, target, "defaults", "main.yml"); read(defaults) != "" {
		out += "  vars_files: [" + defaults + "]\n"
	}
	out += "  tasks:\n"
	for _, part := range []string{"setup_proxmox_auth", target} {
		out += "    - include_tasks: " + filepath.Join(targets, part, "tasks", "main.yml") + "\n"
	}
	return out
}

var rescued = regexp.MustCompile(`rescued=[1-9]`)

// played is the result of a target: one that was rescued has cleaned up after a failure.
func played(ended bool, out string) outcome {
	lines := strings.SplitAfter(out, "\n")
	if ended && !rescued.MatchString(out) {
		return outcome{action: "pass", output: lines}
	}
	for i, line := range lines {
		if strings.HasPrefix(line, "fatal:") && !strings.Contains(strings.Join(lines[i:min(i+8, len(lines))], ""), "...ignoring") {
			return outcome{action: "fail", output: lines[max(0, i-2):min(i+8, len(lines))]}
		}
	}
	return outcome{action: "fail", output: lines}
}

// collections copies the collection to where Ansible looks for it, and writes the variables of
// its targets.
func (s suite) collections(at site) (string, error) {
	root := filepath.Join(at.dir, "collections")
	to := filepath.Join(root, "ansible_collections", "community", "proxmox")
	for _, part := range []string{"galaxy.yml", "meta", "plugins", "tests/integration"} {
		if err := copyPart(filepath.Join(os.Getenv(collectionVar), part), filepath.Join(to, part)); err != nil {
			return "", err
		}
	}
	if err := fixTemplate(filepath.Join(to, "tests/integration/targets/proxmox_template/tasks/main.yml")); err != nil {
		return "", err
	}
	vars := fmt.Sprintf("api_host: %q\napi_user: root@pam\napi_password: %q\nvalidate_certs: false\nnode: %s\nansible_python_interpreter: %q\n",
		strings.TrimPrefix(at.endpoint, "https://"), at.password, at.node, cmp.Or(os.Getenv(pythonVar), "python3"))
	return root, os.WriteFile(filepath.Join(at.dir, "vars.yml"), []byte(vars), 0o600)
}

// copyPart copies a file or a folder.
func copyPart(from, to string) error {
	about, err := os.Stat(from)
	if err != nil {
		return err
	}
	if about.IsDir() {
		return os.CopyFS(to, os.DirFS(from))
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}

// The words that the target proxmox_template expects when requests_toolbelt is missing, and
// those of today. Commit 88e497c of the collection (May 2025, before its first release)
// changed the module's words and its unit test's, and forgot the target, which ansible-test
// does not run ("unsupported"): no release passes it, whatever the host. No host is asked
// there; what comes after is uploads.
const (
	templateWords    = `result.msg is match('\'requests_toolbelt\' module is required to upload files larger than 256MB')`
	templateWordsNow = `result.msg is search('requests_toolbelt.*upload files larger than 256MB')`
)

// fixTemplate brings the target's one line about its module's words up to the module.
func fixTemplate(tasks string) error {
	text, err := os.ReadFile(tasks)
	if err != nil {
		return err
	}
	return os.WriteFile(tasks, []byte(strings.ReplaceAll(string(text), templateWords, templateWordsNow)), 0o600)
}
