package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/proxy"
)

// asProgram makes the test's own binary be pvesim: what is tested is a process
// with flags, signals, files and exit codes.
const asProgram = "PVESIM_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// command is pvesim in a folder of its own.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), os.Args[0], args...) // ends by signal, after the test's own context
	cmd.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+t.TempDir())
	cmd.Dir = t.TempDir()
	return cmd
}

// runs runs pvesim to its end.
func runs(t *testing.T, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	cmd := command(t, args...)
	var out, talk bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &talk
	_ = cmd.Run()
	require.Equal(t, code, cmd.ProcessState.ExitCode(), "%v\n%s%s", args, out.String(), talk.String())
	return out.String(), talk.String()
}

// served is a pvesim that runs, and what it said of itself.
type served struct {
	t    *testing.T
	cmd  *exec.Cmd
	dir  string
	said string // on stdout
	talk bytes.Buffer
}

func serve(t *testing.T, args ...string) *served {
	t.Helper()
	s := &served{t: t, dir: filepath.Join(t.TempDir(), "sim")}
	s.cmd = command(t, append([]string{"-listen", "127.0.0.1:0", "-speed", "1000", "-dir", s.dir}, args...)...)
	s.cmd.Stderr = &s.talk
	out, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, s.cmd.Start())
	t.Cleanup(func() {
		if s.cmd.ProcessState == nil {
			s.stop()
		}
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		s.said += lines.Text() + "\n"
		if strings.HasPrefix(lines.Text(), "export PROXMOX_TOKEN_SECRET=") { // the last
			return s
		}
	}
	_ = s.cmd.Wait()
	t.Fatalf("pvesim ended:\n%s", s.talk.String())
	return nil
}

// stop is Ctrl-C.
func (s *served) stop() {
	require.NoError(s.t, s.cmd.Process.Signal(syscall.SIGINT))
	assert.NoError(s.t, s.cmd.Wait(), s.talk.String())
}

func (s *served) file(name string) string {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, name))
	require.NoError(s.t, err)
	return strings.TrimSpace(string(data))
}

// line returns what the block says of a thing.
func (s *served) line(what string) string {
	m := regexp.MustCompile(`(?m)^# ` + what + `\s+(\S+)`).FindStringSubmatch(s.said)
	require.NotNil(s.t, m, s.said)
	return m[1]
}

// client trusts the certificate that pvesim wrote down, and no other.
func (s *served) client() *http.Client {
	roots := x509.NewCertPool()
	require.True(s.t, roots.AppendCertsFromPEM([]byte(s.file("ca.pem"))))
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
}

func (s *served) ask(method, path, token string) (status, reason, body string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.line("endpoint")+"/api2/json"+path, nil)
	require.NoError(s.t, err)
	req.Header.Set("Authorization", "PVEAPIToken="+token)
	resp, err := s.client().Do(req)
	require.NoError(s.t, err)
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	status, reason, _ = strings.Cut(resp.Status, " ")
	return status, reason, string(data)
}

func TestItServesUntilCtrlC(t *testing.T) {
	requests := filepath.Join(t.TempDir(), "requests.jsonl")
	s := serve(t, "-model", "one-gpu", "-requests", requests, "-log")
	assert.Contains(t, s.said, "homelab@pve!operator, its secret in "+s.dir)
	for _, name := range []string{"token", "root-token", "root-password", "ca.pem", "env"} {
		info, err := os.Stat(filepath.Join(s.dir, name))
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode(), name)
		if strings.Contains(name, "token") || strings.Contains(name, "password") {
			assert.NotContains(t, s.said, s.file(name), "no output has a secret in it")
		}
	}
	token := "homelab@pve!operator=" + s.file("token")
	status, _, body := s.ask("GET", "/nodes/pve1/hardware/pci", token)
	assert.Equal(t, "200", status)
	assert.Contains(t, body, "GeForce RTX 4090")
	status, _, _ = s.ask("GET", "/nodes/pve1/nothing", token)
	assert.Equal(t, "501", status)
	status, _, _ = s.ask("GET", "/nodes/pve1/status", "root@pam!pvesim="+s.file("root-token"))
	assert.Equal(t, "200", status)
	status, _, _ = s.ask("GET", "/version", "homelab@pve!operator=7f1c0ade-5eed-4000-8000-00000c0ffee0")
	assert.Equal(t, "401", status, "the preset's secret, which everybody knows, is none here")

	s.stop()
	assert.Contains(t, s.talk.String(), "A simulated Proxmox VE (1 host, 1 GPU, 0 VMs), nothing of it is real.")
	assert.Contains(t, s.talk.String(), "path=/nodes/pve1/nothing status=501")
	written, err := os.ReadFile(requests)
	require.NoError(t, err)
	var first struct{ Method, Path, User string }
	require.NoError(t, json.Unmarshal(bytes.SplitN(written, []byte("\n"), 2)[0], &first))
	assert.Equal(t, "GET /nodes/pve1/hardware/pci homelab@pve!operator", first.Method+" "+first.Path+" "+first.User)
}

func TestItsEnvironmentIsAShells(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh here: the block to paste is not tried")
	}
	s := serve(t, "-model", "two-hosts")
	out, err := exec.CommandContext(t.Context(), sh, "-c", `. "$0" && printf '%s|%s|%s' "$PROXMOX_VE_ENDPOINT" "$PROXMOX_VE_API_TOKEN" "$PROXMOX_TOKEN_SECRET"`,
		filepath.Join(s.dir, "env")).CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Equal(t, s.line("endpoint")+"/|root@pam!pvesim="+s.file("root-token")+"|"+s.file("token"), string(out))
}

// TestGuestsAreReachedThroughTheProxy logs nobody in: that the guest's SSH server
// greets is enough.
func TestGuestsAreReachedThroughTheProxy(t *testing.T) {
	s := serve(t, "-model", clientsModel(t), "-guests", "127.0.0.1:0")
	token := "root@pam!pvesim=" + s.file("root-token")
	for _, req := range []string{"POST /nodes/pve1/qemu/9000/clone?newid=100&name=alive", "PUT /nodes/pve1/qemu/100/config?ipconfig0=ip%3D10.0.0.50/24&ciuser=ubuntu",
		"POST /nodes/pve1/qemu/100/status/start"} {
		method, path, _ := strings.Cut(req, " ")
		require.EventuallyWithT(t, func(c *assert.CollectT) { // until the task before it has ended
			status, reason, body := s.ask(method, path, token)
			assert.Equal(c, "200", status, reason+body)
		}, 10*time.Second, 50*time.Millisecond)
	}
	dialer, err := proxy.SOCKS5("tcp", strings.TrimPrefix(s.line("guests"), "socks5://"), nil, proxy.Direct)
	require.NoError(t, err)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		conn, err := dialer.(proxy.ContextDialer).DialContext(ctx, "tcp", "10.0.0.50:22")
		if !assert.NoError(c, err) {
			return
		}
		defer func() { _ = conn.Close() }()
		greeting := make([]byte, 4)
		_, err = io.ReadFull(conn, greeting)
		assert.NoError(c, err)
		assert.Equal(c, "SSH-", string(greeting))
	}, 20*time.Second, 200*time.Millisecond)
}

// clientsModel is a host with a template.
func clientsModel(t *testing.T) string {
	t.Helper()
	file, err := filepath.Abs("../../pvesim/models/clients.yaml")
	require.NoError(t, err)
	return file
}

func TestAHostIsRecorded(t *testing.T) {
	s := serve(t, "-model", clientsModel(t))
	record := func(code int, value string, args ...string) (stdout, stderr string) {
		cmd := command(t, append([]string{"record", "-endpoint", s.line("endpoint"), "-token", "root@pam!pvesim"}, args...)...)
		cmd.Env = append(cmd.Env, "PROXMOX_TOKEN_SECRET="+value)
		var out, talk bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &talk
		_ = cmd.Run()
		require.Equal(t, code, cmd.ProcessState.ExitCode(), talk.String())
		return out.String(), talk.String()
	}
	model, talk := record(ok, s.file("root-token"), "-fingerprint", s.line("fingerprint"))
	assert.Contains(t, talk, "Recorded: 1 host, 4 GPUs, 1 VM.")
	assert.NotContains(t, model, s.file("root-token"))
	file := filepath.Join(t.TempDir(), "site.yaml")
	require.NoError(t, os.WriteFile(file, []byte(model), 0o600))
	said, _ := runs(t, ok, "check", file)
	assert.Contains(t, said, "1 host, 4 GPUs, 1 VM")

	_, talk = record(failed, s.file("root-token"))
	assert.Contains(t, talk, "certificate signed by unknown authority")
	_, talk = record(failed, s.file("root-token"), "-fingerprint", "00:11")
	assert.Contains(t, talk, "and not 0011")
	_, talk = record(failed, "wrong", "-ca", filepath.Join(s.dir, "ca.pem"))
	assert.Contains(t, talk, "/version: 401")
	_, talk = record(misused, "")
	assert.Contains(t, talk, "export PROXMOX_TOKEN_SECRET")
}

// TestARecorderFollowsNoRedirect has a host lead elsewhere, where the token would go along.
func TestARecorderFollowsNoRedirect(t *testing.T) {
	var asked atomic.Int32
	elsewhere := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer elsewhere.Close()
	host := httptest.NewTLSServer(http.RedirectHandler(elsewhere.URL, http.StatusFound))
	defer host.Close()
	cmd := command(t, "record", "-endpoint", host.URL, "-token", "root@pam!pvesim", "-insecure")
	cmd.Env = append(cmd.Env, "PROXMOX_TOKEN_SECRET=a secret")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	assert.Equal(t, failed, cmd.ProcessState.ExitCode())
	assert.Contains(t, string(out), "302")
	assert.Zero(t, asked.Load())
}

func TestModelsArePrintedAndChecked(t *testing.T) {
	text, _ := runs(t, ok, "model", "eight-a100")
	assert.Contains(t, text, "# A server with eight A100")
	assert.NotContains(t, text, "secret:")
	file := filepath.Join(t.TempDir(), "site.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	said, _ := runs(t, ok, "check", file)
	assert.Equal(t, file+": 1 host, 8 GPUs, 2 VMs\n", said)

	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(text, "memory: 1TiB", "memory: lots", 1)+"zebras: 1\n"), 0o600))
	_, talk := runs(t, failed, "check", file)
	assert.Regexp(t, regexp.QuoteMeta(file)+`:\d+:\d+: "lots" is not a size`, talk)
	assert.Contains(t, talk, `no key "zebras" here`)
	assert.Contains(t, talk, file+": 2 mistakes")
}

func TestWrongWordsAreToldBeforeAnythingIsDone(t *testing.T) {
	for args, want := range map[string]string{
		"serv":                            `no command "serv"`,
		"-listn :0":                       "flag provided but not defined: -listn",
		"-speed slow":                     "write real, 0 for instant",
		"model nine-a100":                 "name one of the models: one-gpu, two-hosts, eight-a100",
		"check":                           "check takes 1 words beside its flags, and not 0",
		"record -endpoint https://a -x":   "flag provided but not defined: -x",
		"record -endpoint https://a":      "-token",
		"record -token a@pve!b -endpoint": "flag needs an argument",
	} {
		_, talk := runs(t, misused, strings.Fields(args)...)
		assert.Contains(t, talk, want, args)
	}
	_, talk := runs(t, failed, "-model", "zebra")
	assert.Contains(t, talk, `no model "zebra": there are one-gpu, two-hosts, eight-a100, or name a YAML file`)
	_, talk = runs(t, ok, "-h")
	assert.Contains(t, talk, "usage: pvesim [flags]")
}

func TestNothingIsLeftBehind(t *testing.T) {
	cmd := command(t, "-listen", "127.0.0.1:0")
	tmp := t.TempDir()
	cmd.Env = append(cmd.Env, "TMPDIR="+tmp)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	made, err := filepath.Glob(filepath.Join(tmp, "pvesim-*"))
	require.NoError(t, err)
	assert.Len(t, made, 1)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	go func() { _, _ = io.Copy(io.Discard, out) }()
	require.NoError(t, cmd.Wait())
	assert.NoDirExists(t, made[0])
}
