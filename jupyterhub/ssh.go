package jupyterhub

import (
	"context"
	_ "embed" // what runs in a server
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/converge"
)

//go:embed files/ssh.py
var sshConfig string

//go:embed files/ssh.sh
var sshInstall string

// sshPath is where notebooks find what SSH needs, and the name of its ConfigMap and volume.
const (
	sshName = "homelab-ssh"
	sshPath = "/etc/homelab/ssh"
)

// sshRun installs what an image lacks for SSH. A server without it is better than none.
const sshRun = `sh ` + sshPath + `/install.sh || echo "homelab: no SSH into this server: installing OpenSSH and jupyter-server-proxy failed with code $?" >&2; `

// sshObjects are what notebooks mount: Jupyter Server's configuration, under the name that it looks for.
func (h installation) sshObjects() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: h.meta(sshName),
		Data:       map[string]string{"jupyter_server_config.py": sshConfig, "install.sh": sshInstall},
	}
}

// publicKey matches a line of authorized_keys without options. It is in the chart's values for Python, and in the form's for browsers,
// where a class takes neither - nor / without a backslash.
const publicKey = `^(?:(?:ssh-(?:ed25519|rsa)|ecdsa-sha2-nistp(?:256|384|521)|sk-(?:ssh-ed25519|ecdsa-sha2-nistp256)@openssh\.com) [A-Za-z0-9+\/=]{60,}(?: [A-Za-z0-9@._ \-]*)?)$`

// sshOption lets people give a public key where they choose a profile. Their server writes it into the home, where it stays.
func sshOption() map[string]any {
	return map[string]any{
		"display_name": "SSH", "choices": map[string]any{"home": choice("Keys in the home", true, map[string]any{})},
		"unlisted_choice": map[string]any{
			"enabled": true, "display_name": "Public key", "display_name_in_choices": "Add a public key", "validation_regex": publicKey,
			"validation_message":   "The line of your .pub file, such as ssh-ed25519 AAAA… me@laptop",
			"kubespawner_override": map[string]any{"environment": map[string]any{"HOMELAB_SSH_KEY": "{value}"}},
		},
	}
}

// putSSH adds the volume and its mount.
func putSSH(volumes, mounts map[string]any) {
	volumes[sshName] = map[string]any{"name": sshName, "configMap": map[string]any{"name": sshName}}
	mounts[sshName] = map[string]any{"name": sshName, "mountPath": sshPath, "readOnly": true}
}

// sshEnv makes Jupyter Server read the configuration, after all others.
func sshEnv() map[string]any { return map[string]any{"JUPYTER_CONFIG_PATH": sshPath} }

// ssh opens the server's SSH through the hub, and returns how it announces itself: RFC 4253, 4.2. It needs no key.
func (v *verifier) ssh(ctx context.Context) (banner string, err error) {
	rule := converge.WaitRule{What: "SSH into its server", Limit: v.o.Run, TimeoutText: "its SSH did not answer", Strict: true}
	err = converge.Until(ctx, rule, func(ctx context.Context) (_ string, err error) {
		banner, err = v.sshOnce(ctx)
		return "", err
	})
	return banner, err
}

func (v *verifier) sshOnce(ctx context.Context) (string, error) {
	s, err := v.server(ctx)
	if err != nil {
		return "", err
	}
	if s == nil || !s.Ready {
		return "", errors.New("its server stopped as soon as it was ready")
	}
	ws, err := v.websocket(ctx, s.URL+"ssh/")
	if err != nil {
		return "", fmt.Errorf("no SSH into its server; its log says what could not be installed: %w", err)
	}
	defer func() { _ = ws.Close() }()
	defer context.AfterFunc(ctx, func() { _ = ws.Close() })()
	text := make([]byte, 256) // the longest line is 255
	n, err := ws.Read(text)
	if err != nil {
		return "", orCause(ctx, fmt.Errorf("SSH into its server: %w", markTransient(err)))
	}
	line, _, _ := strings.Cut(string(text[:n]), "\r\n")
	if !strings.HasPrefix(line, "SSH-2.0-") {
		return "", fmt.Errorf("SSH into its server: it answers %q", line)
	}
	return line, nil
}
