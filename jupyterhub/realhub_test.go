//go:build linux

package jupyterhub

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/secret"
)

// python is Debian's, which has JupyterHub.
const python = "/usr/bin/python3"

// realHub is a JupyterHub on loopback that ends with the test.
type realHub struct {
	url, token, siteToken string
	folder                string // of homes, by name below home
	output                *safeBuffer
}

// needHub skips where there is no JupyterHub, loudly; where CI says that it is there,
// its absence is a failure.
func needHub(t *testing.T) {
	t.Helper()
	for _, what := range [][]string{
		{python, "-c", "import jupyterhub, jupyter_server, ipykernel"},
		{"configurable-http-proxy", "--version"},
	} {
		cmd := exec.Command(what[0], what[1:]...)
		cmd.Env = hubEnv()
		if out, err := cmd.CombinedOutput(); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatalf("no JupyterHub here (apt-get install jupyterhub jupyter-server python3-ipykernel): %v %s", err, out)
			}
			t.Skip("SKIPPED: no JupyterHub here (apt-get install jupyterhub jupyter-server python3-ipykernel)")
		}
	}
}

// hubEnv is for programs of Debian's: its Python, and its modules also for a Node.js
// that is not Debian's.
func hubEnv() []string {
	return append(os.Environ(), "PATH=/usr/bin:/bin", "NODE_PATH=/usr/share/nodejs")
}

// startHub runs Debian's JupyterHub with what h renders for it.
func startHub(t *testing.T, h Hub) *realHub {
	t.Helper()
	needHub(t)
	folder := t.TempDir()
	values, err := h.Values()
	require.NoError(t, err)
	hidden, err := installation{h}.secret()
	require.NoError(t, err)
	secrets := map[string]string{}
	for key, n := range hidden.Generate {
		secrets[key] = hex.EncodeToString([]byte(secret.Random(n).Reveal())[:n]) // as chart.Secret says
	}
	ports := freePorts(t, 3)
	hub := &realHub{
		url: fmt.Sprintf("http://127.0.0.1:%d", ports[0]), token: secrets[keyToken],
		siteToken: secret.Random(16).Reveal(), output: &safeBuffer{},
	}
	culler, err := filepath.Abs("files/culler.py")
	require.NoError(t, err)
	test, err := json.Marshal(map[string]any{
		"values": values, "secrets": secrets, "folder": folder, "url": hub.url, "hubPort": ports[1], "proxyPort": ports[2],
		"siteToken": hub.siteToken, "culler": culler,
	})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "test.json"), test, 0o600))
	if h.SSH { // as the volume of a server has it
		require.NoError(t, os.Mkdir(filepath.Join(folder, "ssh"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(folder, "ssh", "jupyter_server_config.py"), []byte(sshConfig), 0o600))
	}
	hub.folder = folder
	config, err := filepath.Abs("testdata/hub/jupyterhub_config.py")
	require.NoError(t, err)

	cmd := exec.Command(python, "-m", "jupyterhub", "-f", config)
	cmd.Dir = folder
	cmd.Env = append(hubEnv(), "HUB_TEST="+filepath.Join(folder, "test.json"), "HOME="+folder)
	cmd.Stdout, cmd.Stderr = hub.output, hub.output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM) // stops servers and proxy too
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
		}
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // and what did not listen
		<-ended
		if t.Failed() {
			t.Logf("the hub said:\n%s", tail(hub.output.String(), 6000))
		}
	})
	hub.await(t, ended)
	return hub
}

// await waits until the hub answers.
func (h *realHub) await(t *testing.T, ended <-chan struct{}) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		select {
		case <-ended:
			t.Fatal("the hub ended")
		default:
		}
		res, err := http.Get(h.url + "/hub/api/")
		if err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return
			}
		}
		require.True(t, time.Now().Before(deadline), "the hub does not answer: %v", err)
	}
}

func freePorts(t *testing.T, n int) []int {
	t.Helper()
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (h *realHub) client() Client { return Client{URL: h.url, Token: secret.New(h.token)} }

// site is the site's own service, which sees everything.
func (h *realHub) site(t *testing.T) *conn {
	t.Helper()
	c, err := Client{URL: h.url, Token: secret.New(h.siteToken)}.open()
	require.NoError(t, err)
	t.Cleanup(c.close)
	return c
}

func (h *realHub) users(t *testing.T) []string {
	t.Helper()
	var users []struct{ Name string }
	_, err := h.site(t).call(t.Context(), http.MethodGet, "/hub/api/users", nil, &users)
	require.NoError(t, err)
	var names []string
	for _, u := range users {
		names = append(names, u.Name)
	}
	return names
}

// heard collects what is said while something runs.
func heard(ctx context.Context) (context.Context, func() string) {
	var mu sync.Mutex
	var said []string
	ctx = converge.WithProgress(ctx, func(u converge.ProgressUpdate) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, u.String())
	})
	return ctx, func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(said, "\n")
	}
}

// patience for tests on a busy machine: it is a bound, not what is measured.
var patience = Options{Start: 2 * time.Minute, Run: time.Minute, Stop: time.Minute}

func testProfiles(names ...string) []spec.HubProfile {
	var all []spec.HubProfile
	for _, name := range names {
		all = append(all, spec.HubProfile{Name: name, Image: "quay.io/jupyter/base-notebook:2026-10-05"})
	}
	return all
}

func TestVerifyOnRealHub(t *testing.T) {
	hub := startHub(t, Hub{
		Hub: spec.Hub{
			Hostname: "hub.lab.example", Auth: spec.HubAuth{Kind: spec.AuthDummy, AllowAll: spec.On},
			Profiles: testProfiles("cpu", "broken", "endless", "nowhere"),
		},
	})

	t.Run("each profile for itself", func(t *testing.T) {
		ctx, said := heard(t.Context())
		results, err := Verify(ctx, hub.client(), []Check{{Profile: "broken"}, {Profile: "unknown"}, {Profile: "cpu"}}, patience)
		require.ErrorContains(t, err, "profile broken: ")
		require.ErrorContains(t, err, "profile unknown: ")
		require.Len(t, results, 3)
		require.ErrorContains(t, results[0].Err, "Container image pulled", "the hub's last words")
		require.Error(t, results[1].Err)

		r := results[2]
		require.NoError(t, r.Err)
		require.Positive(t, r.Ready)
		require.True(t, r.Saw.Writable)
		require.Positive(t, r.Saw.CPUs)
		require.Contains(t, r.Saw.Home, verifyUser)
		require.Contains(t, said(), "profile cpu: 0/7 nodes are available")
		require.Contains(t, said(), "profile cpu: Python 3.")
		require.NotContains(t, hub.users(t), verifyUser, "the user is removed")
	})

	t.Run("by an address of this machine, with a GPU that is not there", func(t *testing.T) {
		// As hub:open makes one: Origin and Host are this machine's.
		handler, err := Client{URL: hub.url}.LocalProxy()
		require.NoError(t, err)
		local := httptest.NewServer(handler)
		defer local.Close()
		_, err = Verify(t.Context(), Client{URL: local.URL, Token: secret.New(hub.token)}, []Check{{Profile: "cpu", GPUs: 1}}, patience)
		require.ErrorContains(t, err, "profile cpu: CUDA does not compute: no driver in the container")
		require.NotContains(t, hub.users(t), verifyUser)
		require.True(t, (&realHub{url: local.URL}).login(t, "student3"))
	})

	t.Run("what a killed run left is removed first", func(t *testing.T) {
		c, err := hub.client().open()
		require.NoError(t, err)
		defer c.close()
		v := &verifier{conn: c, o: Options{Schedule: time.Minute, Start: patience.Start, Run: patience.Run, Stop: patience.Stop}}
		require.NoError(t, v.begin(t.Context()))
		_, err = v.start(t.Context(), "cpu")
		require.NoError(t, err)
		require.Contains(t, hub.users(t), verifyUser)

		_, err = Verify(t.Context(), hub.client(), []Check{{Profile: "cpu"}}, patience)
		require.NoError(t, err)
		require.NotContains(t, hub.users(t), verifyUser)
	})

	t.Run("killed while it waits", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ctx = converge.WithProgress(ctx, func(u converge.ProgressUpdate) {
			if strings.Contains(u.String(), "profile endless: ") {
				cancel()
			}
		})
		_, err := Verify(ctx, hub.client(), []Check{{Profile: "endless"}, {Profile: "cpu"}}, patience)
		require.ErrorIs(t, err, context.Canceled)
		require.NotContains(t, hub.users(t), verifyUser, "nothing is left, though nobody waited any more")
	})

	t.Run("one that never gets ready", func(t *testing.T) {
		o := patience
		o.Start = 3 * time.Second
		_, err := Verify(t.Context(), hub.client(), []Check{{Profile: "endless"}}, o)
		require.ErrorContains(t, err, "profile endless: its server was not ready within 3s: ")
		require.ErrorContains(t, err, "; the hub's last messages: ")
		require.ErrorContains(t, err, "0/7 nodes are available")
		require.NotContains(t, hub.users(t), verifyUser)
	})

	t.Run("one that no node takes", func(t *testing.T) {
		o := patience
		o.Schedule = time.Second
		_, err := Verify(t.Context(), hub.client(), []Check{{Profile: "nowhere"}}, o)
		require.ErrorContains(t, err, "profile nowhere: no node takes it for 1s; the hub's last messages: ")
		require.ErrorContains(t, err, "0/7 nodes are available: 7 Insufficient nvidia.com/gpu.")
		require.NotContains(t, hub.users(t), verifyUser)
	})

	t.Run("wrong token", func(t *testing.T) {
		c := hub.client()
		c.Token = secret.New("wrong")
		_, err := Verify(t.Context(), c, []Check{{Profile: "cpu"}}, patience)
		require.ErrorContains(t, err, "the hub does not know the token of its service homelab-verify")
		require.NotContains(t, err.Error(), "wrong\"")
		c.Token = secret.New(hub.siteToken)
		_, err = Verify(t.Context(), c, nil, patience)
		require.ErrorContains(t, err, "the token is of the service site")
	})

	t.Run("the token may do nothing else", func(t *testing.T) {
		_, err := hub.site(t).call(t.Context(), http.MethodPost, "/hub/api/users/teacher", nil, nil)
		require.NoError(t, err)
		c, err := hub.client().open()
		require.NoError(t, err)
		defer c.close()
		for _, ask := range [][2]string{
			{http.MethodGet, "/hub/api/users/teacher"}, {http.MethodDelete, "/hub/api/users/teacher"}, {http.MethodPost, "/hub/api/users/teacher/server"},
			{http.MethodPost, "/hub/api/users/stranger"}, {http.MethodPost, "/hub/api/users/teacher/tokens"}, {http.MethodPost, "/hub/api/shutdown"},
			{http.MethodPost, "/hub/api/groups/admins"},
		} {
			_, err := c.call(t.Context(), ask[0], ask[1], nil, nil)
			require.True(t, is(err, http.StatusForbidden) || is(err, http.StatusNotFound), "%s %s: %v", ask[0], ask[1], err)
		}
		require.True(t, slices.Contains(hub.users(t), "teacher"))
	})

	t.Run("nobody logs in as the one who verifies", func(t *testing.T) {
		for name, in := range map[string]bool{verifyUser: false, "teacher": true} {
			require.Equal(t, in, hub.login(t, name), name)
		}
	})
}

// login fills in the form, as a browser does, and says whether it led in.
func (h *realHub) login(t *testing.T, name string) bool {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	browser := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := browser.Get(h.url + "/hub/login")
	require.NoError(t, err)
	page, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	res.Body.Close()
	form := url.Values{"username": {name}, "password": {"any"}}
	if hidden := regexp.MustCompile(`name="_xsrf" value="([^"]*)"`).FindSubmatch(page); hidden != nil { // since JupyterHub 4
		form.Set("_xsrf", html.UnescapeString(string(hidden[1])))
	}
	res, err = browser.PostForm(h.url+"/hub/login", form)
	require.NoError(t, err)
	res.Body.Close()
	return res.StatusCode == http.StatusFound
}

// TestCullerOnRealHub: what nobody uses is stopped, and servers of exempt users and of patient profiles go on.
func TestCullerOnRealHub(t *testing.T) {
	profiles := testProfiles("cpu", "long")
	profiles[1].Idle = time.Hour
	hub := startHub(t, Hub{Hub: spec.Hub{
		Hostname: "hub.lab.example", Auth: spec.HubAuth{Kind: spec.AuthDummy, AllowAll: spec.On}, Profiles: profiles,
		Cull: spec.HubCull{Idle: 2 * time.Second, Every: time.Second, Exempt: []string{"teacher"}},
	}})
	site := hub.site(t)
	running := func(name string) bool {
		var user struct{ Servers map[string]*server }
		_, err := site.call(t.Context(), http.MethodGet, "/hub/api/users/"+name, nil, &user)
		require.NoError(t, err)
		return user.Servers[""] != nil && user.Servers[""].Ready
	}
	for name, profile := range map[string]string{"teacher": "cpu", "student1": "cpu", "student2": "long"} {
		_, err := site.call(t.Context(), http.MethodPost, "/hub/api/users/"+name, nil, nil)
		require.NoError(t, err)
		_, err = site.call(t.Context(), http.MethodPost, "/hub/api/users/"+name+"/server", map[string]any{"profile": profile}, nil)
		require.NoError(t, err)
	}
	const stopped = "stopping /users/student1/server: nobody used it for"
	deadline := time.Now().Add(3 * time.Minute)
	for !running("teacher") || !running("student2") || running("student1") || !strings.Contains(hub.output.String(), stopped) {
		require.True(t, time.Now().Before(deadline), "neither stops student1's server nor starts teacher's:\n%s", hub.output.String())
		time.Sleep(200 * time.Millisecond)
	}
	require.True(t, running("teacher"), "she is exempt")
	require.NotRegexp(t, "stopping /users/(teacher|student2)", hub.output.String())
}

// TestKeyOnRealHub: a public key that somebody types where the profile is chosen is in the home from then on, once, beside others.
func TestKeyOnRealHub(t *testing.T) {
	hub := startHub(t, Hub{Hub: spec.Hub{
		Hostname: "hub.lab.example", Auth: spec.HubAuth{Kind: spec.AuthDummy, AllowAll: spec.On}, Profiles: testProfiles("cpu"), SSH: true,
	}})
	const first, second = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl", "sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29tAAAAIBc0j2QrmF5hLyLQyyh9ncjS8bD9rLHGpNwMVeEFZtuDAAAABHNzaDo= ada@laptop"
	site := hub.site(t)
	_, err := site.call(t.Context(), http.MethodPost, "/hub/api/users/ada", nil, nil)
	require.NoError(t, err)
	ask := func(method, key string) error {
		options := map[string]any{"profile": "cpu"}
		if key != "" {
			options["ssh--unlisted-choice"] = key
		}
		_, err := site.call(t.Context(), method, "/hub/api/users/ada/server", options, nil)
		return err
	}
	ready := func(want bool) {
		t.Helper()
		require.Eventually(t, func() bool {
			var user struct{ Servers map[string]*server }
			_, err := site.call(t.Context(), http.MethodGet, "/hub/api/users/ada", nil, &user)
			return err == nil && (user.Servers[""] != nil && user.Servers[""].Ready) == want && (want || user.Servers[""] == nil)
		}, 2*time.Minute, 500*time.Millisecond)
	}
	for _, key := range []string{first, second, "", first} {
		require.NoError(t, ask(http.MethodPost, key))
		ready(true)
		require.NoError(t, ask(http.MethodDelete, ""))
		ready(false)
	}
	keys, err := os.ReadFile(filepath.Join(hub.folder, "home", "ada", ".ssh", "authorized_keys"))
	require.NoError(t, err)
	require.Equal(t, first+"\n"+second+"\n", string(keys))
}
