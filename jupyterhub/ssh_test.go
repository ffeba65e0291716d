package jupyterhub

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// sshd returns what jupyter-server-proxy starts in a server with this home and these variables.
func sshd(t *testing.T, home string, env ...string) (command []string, config string) {
	t.Helper()
	cmd := exec.Command(needTool(t, "python3"), "testdata/ssh.py", "files/ssh.py")
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "HOME=" + home, "TMPDIR=" + t.TempDir()}, env...)
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.Output()
	require.NoError(t, err, log.String())
	var have struct {
		Command []string
		Raw     bool `json:"raw_socket_proxy"`
	}
	require.NoError(t, json.Unmarshal(out, &have), string(out))
	require.True(t, have.Raw)
	require.Equal(t, []string{"/usr/sbin/sshd", "-D", "-e", "-f"}, have.Command[:4])
	file := have.Command[4]
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "the user's token is in it")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return have.Command, string(text)
}

// connect runs OpenSSH for one connection, as a superserver does, and logs in.
func connect(t *testing.T, command []string, key ssh.Signer) (*ssh.Client, ssh.PublicKey) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	ours, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	theirs, err := l.Accept()
	require.NoError(t, err)
	file, err := theirs.(*net.TCPConn).File()
	require.NoError(t, err)
	require.NoError(t, theirs.Close())
	var log bytes.Buffer
	cmd := exec.Command(command[0], "-i", "-e", "-f", command[4])
	cmd.Stdin, cmd.Stdout, cmd.Stderr = file, file, &log
	require.NoError(t, cmd.Start())
	require.NoError(t, file.Close())
	t.Cleanup(func() {
		_ = ours.Close()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	me, err := user.Current()
	require.NoError(t, err)
	var host ssh.PublicKey
	conn, channels, requests, err := ssh.NewClientConn(ours, "notebook", &ssh.ClientConfig{
		User: me.Username, Auth: []ssh.AuthMethod{ssh.PublicKeys(key)},
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error { host = key; return nil },
	})
	require.NoError(t, err)
	return ssh.NewClient(conn, channels, requests), host
}

// TestSSH: OpenSSH takes the configuration, in a home as Kubernetes leaves it: writable for all, and its files for
// the volume's group. A session has the server's variables, SFTP and forwarding work, and the host's key stays.
func TestSSH(t *testing.T) {
	needTool(t, "/usr/sbin/sshd")
	if os.Getuid() == 0 {
		require.NoError(t, os.MkdirAll("/run/sshd", 0o755)) // as its unit does
	}
	home := t.TempDir()
	require.NoError(t, os.Chmod(home, 0o777))
	env := []string{"JUPYTERHUB_API_TOKEN=t0ken", `ODD=a "b" \c #d 'e' {f}`, "LINES2=a\nb", "SSH_CLIENT=x", "TERM=x"}
	command, config := sshd(t, home, env...)
	require.NotContains(t, config, "LINES2")
	require.NotContains(t, config, "SSH_CLIENT")
	require.Contains(t, config, `/usr/bin:/bin"`, "it has conda's folder; here the tester's .bashrc sets another")

	_, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	key, err := ssh.NewSignerFromKey(private)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(home+"/.ssh/authorized_keys", ssh.MarshalAuthorizedKey(key.PublicKey()), 0o664))
	client, host := connect(t, command, key)

	session, err := client.NewSession()
	require.NoError(t, err)
	out, err := session.Output(`printf '%s|' "$JUPYTERHUB_API_TOKEN" "$ODD"`)
	require.NoError(t, err)
	assert.Equal(t, `t0ken|a "b" \c #d 'e' {f}|`, string(out))

	session, err = client.NewSession()
	require.NoError(t, err)
	require.NoError(t, session.RequestSubsystem("sftp"))
	require.NoError(t, session.Close())

	behind, err := net.Listen("tcp", "127.0.0.1:0") // VS Code's server listens on a port of loopback
	require.NoError(t, err)
	defer behind.Close()
	forwarded, err := client.Dial("tcp", behind.Addr().String())
	require.NoError(t, err)
	require.NoError(t, forwarded.Close())

	require.NoError(t, os.Chmod(home+"/.ssh/homelab_host_key", 0o660)) // by the next mount with an fsGroup
	command, _ = sshd(t, home, env...)
	_, again := connect(t, command, key)
	assert.Equal(t, host.Marshal(), again.Marshal())
}

// TestSSHInstall: only what is missing is installed, and the kernels' environment gets no OpenSSH.
func TestSSHInstall(t *testing.T) {
	out, err := exec.Command(needTool(t, "shellcheck"), "files/ssh.sh").CombinedOutput()
	require.NoError(t, err, string(out))
	const openssh = "mamba create --yes --quiet --override-channels --channel conda-forge --prefix /tmp/homelab-ssh openssh\n"
	for name, c := range map[string]struct {
		has  []string
		want string
	}{
		"all is there":  {[]string{"sshd", "proxy"}, ""},
		"no OpenSSH":    {[]string{"proxy"}, openssh},
		"nothing":       {nil, openssh + "pip install\n"},
		"an old image":  {[]string{"sshd"}, "pip install\n"},
		"not even pip":  {[]string{"sshd", "broken"}, "homelab: no SSH into this server: installing OpenSSH and jupyter-server-proxy failed with code 1\n"},
		"no mamba here": {[]string{"proxy", "no mamba"}, "homelab: no SSH into this server: installing OpenSSH and jupyter-server-proxy failed with code 127\n"},
	} {
		t.Run(name, func(t *testing.T) {
			bin := t.TempDir()
			write := func(name, script string) {
				require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
			}
			has := " " + strings.Join(c.has, ",") + " "
			if strings.Contains(has, "sshd") {
				write("sshd", "")
			}
			if !strings.Contains(has, "no mamba") {
				write("mamba", `echo "mamba $*"`)
			}
			proxy, pip := "exit 1", "echo pip install"
			if strings.Contains(has, "proxy") {
				proxy = "exit 0"
			}
			if strings.Contains(has, "broken") {
				pip = "exit 1"
			}
			write("python3", "case $1 in -c) "+proxy+";; *) "+pip+";; esac")
			write("jupyterhub-singleuser", "echo server")
			// The machine that tests has an sshd, where the script looks for one.
			script := filepath.Join(bin, "install.sh")
			require.NoError(t, os.WriteFile(script, []byte(strings.ReplaceAll(sshInstall, ":/usr/sbin", "")), 0o644))
			var args []string
			h := Hub{Hub: spec.Hub{SSH: true}}
			for _, a := range h.startCommand(spec.HubProfile{}) {
				args = append(args, strings.NewReplacer("$$", "$", sshPath+"/install.sh", script).Replace(a.(string)))
			}
			sh, err := exec.LookPath(args[0])
			require.NoError(t, err)
			cmd := exec.Command(sh, args[1:]...)
			write("sh", `exec `+sh+` "$@"`)
			cmd.Env = []string{"PATH=" + bin}
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			got := string(out)
			if strings.Contains(has, "no mamba") {
				_, got, _ = strings.Cut(got, "\n") // the shell's own words
			}
			assert.Equal(t, c.want+"server\n", got)
		})
	}
}

// TestPublicKey: the form takes a key as OpenSSH writes it, and nothing that would be more than that in a file, a variable or a template.
func TestPublicKey(t *testing.T) {
	_, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	signer, err := ssh.NewSignerFromKey(private)
	require.NoError(t, err)
	key := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
	form := regexp.MustCompile(publicKey)
	for _, right := range []string{key, key + " ada@laptop", key + " the key of ada_1-2.x", strings.Replace(key, "ssh-ed25519", "ecdsa-sha2-nistp256", 1), strings.Replace(key, "ssh-ed25519", "sk-ssh-ed25519@openssh.com", 1)} {
		assert.Regexp(t, form, right)
	}
	for _, wrong := range []string{"", "ssh-ed25519 AAAA", key[:len(key)-30] + "\n" + key, `command="sh" ` + key, key + "\n" + key, key + " {username}", key + " $(id)", key + " 'x'", "ssh-dss" + key[11:], " " + key} {
		assert.NotRegexp(t, form, wrong)
	}
}

func TestSSHValues(t *testing.T) {
	h := hubs()["dummy"]
	values, err := h.Values()
	require.NoError(t, err)
	text, err := json.Marshal(values)
	require.NoError(t, err)
	assert.NotContains(t, string(text), "homelab-ssh")

	h.SSH = true
	values, err = h.Values()
	require.NoError(t, err)
	single := values["singleuser"].(map[string]any)
	assert.Equal(t, sshPath, single["extraEnv"].(map[string]any)["JUPYTER_CONFIG_PATH"])
	storage := single["storage"].(map[string]any)
	assert.Contains(t, storage["extraVolumes"], sshName)
	assert.Contains(t, storage["extraVolumeMounts"], sshName)
	for _, p := range single["profileList"].([]any) {
		assert.Equal(t, "{value}", at(t, p.(map[string]any), "profile_options", "ssh", "unlisted_choice", "kubespawner_override", "environment", "HOMELAB_SSH_KEY"))
		assert.Contains(t, p.(map[string]any)["kubespawner_override"].(map[string]any)["cmd"].([]any)[2], "install.sh")
	}
	part, err := h.Part()
	require.NoError(t, err)
	text, err = json.Marshal(part.Before)
	require.NoError(t, err)
	assert.Contains(t, string(text), "jupyter_server_config.py")
	for _, c := range h.Checks() {
		assert.True(t, c.SSH)
	}
}
