package jupyterhub

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// needTool skips where a program is not installed; where CI says that all is there,
// its absence is a failure.
func needTool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is not installed", name)
		}
		t.Skip("SKIPPED: ", name, " is not installed")
	}
	return path
}

func TestFilesAreWellFormed(t *testing.T) {
	py, err := filepath.Glob("files/*.py")
	require.NoError(t, err)
	require.Len(t, py, 7)
	compile := "import sys\nfor p in sys.argv[1:]: compile(open(p).read(), p, 'exec')"
	out, err := exec.Command(needTool(t, "python3"), append([]string{"-c", compile}, py...)...).CombinedOutput()
	require.NoError(t, err, string(out))
}

func TestBundleScript(t *testing.T) {
	t.Run("shellcheck", func(t *testing.T) {
		out, err := exec.Command(needTool(t, "shellcheck"), "files/bundle.sh").CombinedOutput()
		require.NoError(t, err, string(out))
	})
	t.Run("joins what is there", func(t *testing.T) {
		root := t.TempDir()
		text, err := os.ReadFile("files/bundle.sh")
		require.NoError(t, err)
		for _, path := range []string{"/etc/ssl/certs/", "/etc/homelab/ca/", "/run/homelab-ca/"} {
			require.NoError(t, os.MkdirAll(root+path, 0o755))
		}
		require.NoError(t, os.WriteFile(root+"/etc/ssl/certs/ca-certificates.crt", []byte("public\n"), 0o644))
		require.NoError(t, os.WriteFile(root+"/etc/homelab/ca/ca.crt", []byte("ours\n"), 0o644))
		moved := strings.NewReplacer("/etc/", root+"/etc/", "/run/", root+"/run/").Replace(string(text))
		out, err := exec.Command("sh", "-c", moved).CombinedOutput()
		require.NoError(t, err, string(out))
		have, err := os.ReadFile(root + "/run/homelab-ca/bundle.crt")
		require.NoError(t, err)
		require.Equal(t, "public\nours\n", string(have))
	})
}

func snippet(t *testing.T, file string, given map[string]any) map[string]any {
	t.Helper()
	text, err := json.Marshal(given)
	require.NoError(t, err)
	out, err := exec.Command(needTool(t, "python3"), "testdata/snippets.py", "files/"+file, string(text)).CombinedOutput()
	require.NoError(t, err, string(out))
	var have map[string]any
	require.NoError(t, json.Unmarshal(out, &have), string(out))
	return have
}

func TestProfilesForGroups(t *testing.T) {
	h := hubs()["native"] // whose profile "gpus" is for the group "lab"
	values, err := h.Values()
	require.NoError(t, err)
	users := map[string]any{"teacher": []string{"lab"}, "student1": []string{"guests"}, "student3": []string{}, verifyUser: []string{}}
	have := snippet(t, "profiles.py", map[string]any{"values": values, "users": users})
	require.Equal(t, map[string]any{
		"teacher": []any{"cpu", "gpu", "gpus"}, "student1": []any{"cpu", "gpu"}, "student3": []any{"cpu", "gpu"}, verifyUser: []any{"cpu", "gpu", "gpus"},
	}, have)

	h = hubs()["oidc"]
	h.Profiles = h.Profiles[2:]
	values, err = h.Values()
	require.NoError(t, err)
	have = snippet(t, "profiles.py", map[string]any{"values": values, "users": users})
	require.Equal(t, []any{"gpus"}, have["teacher"])
	require.Contains(t, have["student3"], "There is no profile for you", "an empty list would start the chart's defaults")
}

// A server with a GPU may wait for hours, others fail as early as before; and the page says what it
// waits for.
func TestServersWaitInAQueue(t *testing.T) {
	h := hubs()["native"]
	h.Queue = "students"
	values, err := h.Values()
	require.NoError(t, err)
	text, err := json.Marshal(values)
	require.NoError(t, err)
	out, err := exec.Command(needTool(t, "python3"), "testdata/queue.py", "files/queue.py", string(text)).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, "cpu 1200\ngpu 28800\nnone 1200\n"+
		"Created container\nYour server is in the queue students. While all its GPUs are in use it waits, and then starts by itself: you may leave this page.\n", string(out))

	for _, e := range values["singleuser"].(map[string]any)["profileList"].([]any) {
		e := e.(map[string]any)
		labels, waits := e["kubespawner_override"].(map[string]any)["extra_labels"]
		require.Equal(t, e["slug"] != "cpu", waits, e["slug"])
		if waits {
			require.Equal(t, map[string]any{queueLabel: "students"}, labels)
		}
	}
}

func TestPasswordsAreTakenFromTheSecret(t *testing.T) {
	have := snippet(t, "passwords.py", map[string]any{"secrets": map[string]string{keyUser: "u", keyAdmin: "a"}})
	require.Equal(t, map[string]any{"SharedPasswordAuthenticator.user_password": "u", "SharedPasswordAuthenticator.admin_password": "a"}, have)
}

// look runs look.py as a kernel would, against a stand-in for the driver.
func look(t *testing.T, ask string, env ...string) Observation {
	t.Helper()
	lib := t.TempDir()
	out, err := exec.Command(needTool(t, "gcc"), "-shared", "-fPIC", "-Wall", "-Werror", "-o", lib+"/libcuda.so.1", "testdata/cuda/libcuda.c").CombinedOutput()
	require.NoError(t, err, string(out))
	cmd := exec.Command(needTool(t, "python3"), "-")
	cmd.Env = append(append(os.Environ(), "LD_LIBRARY_PATH="+lib, "HOME="+lib), env...)
	text, err := json.Marshal(ask)
	require.NoError(t, err)
	cmd.Stdin = strings.NewReader("ASK = " + string(text) + "\n" + lookScript)
	out, err = cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	s, err := sight(string(out))
	require.NoError(t, err)
	return s
}

func TestLook(t *testing.T) {
	s := look(t, `{"gpu": true, "limit": 0}`)
	require.Empty(t, s.Problem)
	require.Equal(t, []GPU{{"Fake A100 (0)", 40 * GiB}, {"Fake A100 (1)", 40 * GiB}}, s.GPUs)
	require.Equal(t, "13.0", s.Driver)
	require.True(t, s.Writable)
	require.NoError(t, s.compare(Check{GPUs: 2}))
	require.NoError(t, s.compare(Check{AnyGPU: true}))
	require.ErrorContains(t, s.compare(Check{GPUs: 1}), "it computes on 2 GPUs and requested 1")
	require.Contains(t, s.String(), "Fake A100 (1) computes")

	require.ErrorContains(t, look(t, `{"gpu": true, "limit": 0}`, "FAKE_CUDA_WRONG=1").compare(Check{GPUs: 2}), "1 of 65536 sums are wrong")
	require.ErrorContains(t, look(t, `{"gpu": true, "limit": 0}`, "FAKE_CUDA_BROKEN=1").compare(Check{GPUs: 2}), "cuInit: initialization error (3)")

	share := Check{GPUs: 2, GPUMemory: 10 * GiB}
	require.NoError(t, look(t, `{"gpu": true, "limit": 10737418240}`, "FAKE_CUDA_LIMIT=10737418240").compare(share))
	require.ErrorContains(t, look(t, `{"gpu": true, "limit": 10737418240}`).compare(share), "it could use more than its 10Gi of GPU memory")

	s = look(t, `{"gpu": false, "limit": 0}`)
	require.Empty(t, s.GPUs)
	require.NoError(t, s.compare(Check{}))
	s.Devices = []string{"/dev/nvidia0"}
	require.ErrorContains(t, s.compare(Check{}), "it sees /dev/nvidia0 though it requested no GPU")
	s.Writable = false
	require.ErrorContains(t, s.compare(Check{}), "is not writable")
}

// TestStartCommand: a profile's script runs before the server, which starts whatever becomes of it.
func TestStartCommand(t *testing.T) {
	bin := t.TempDir()
	for name, script := range map[string]string{"python3": `echo "python3 $*"`, "jupyterhub-singleuser": `echo "server $*"`} {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	require.Nil(t, Hub{}.startCommand(spec.HubProfile{}))
	for _, c := range []struct {
		p    spec.HubProfile
		want string
	}{
		{spec.HubProfile{Start: "x=$(echo one)\necho \"$x '$$'\" | tr -d 0-9"}, "one ''\nserver --port=1\n"},
		{spec.HubProfile{Packages: []string{"a==1", "b[c]>=2"}, Start: "echo two"}, "python3 -m pip install --quiet --disable-pip-version-check a==1 b[c]>=2\ntwo\nserver --port=1\n"},
		{spec.HubProfile{Start: "false\necho never"}, "homelab: the start script of the profile failed with code 1\nserver --port=1\n"},
	} {
		var args []string
		for _, a := range append(Hub{}.startCommand(c.p), "--port=1") { // KubeSpawner appends arguments
			args = append(args, strings.ReplaceAll(a.(string), "$$", "$")) // as Kubernetes does
		}
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Env = []string{"PATH=" + bin + ":/usr/bin:/bin"}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Equal(t, c.want, string(out))
	}
}
