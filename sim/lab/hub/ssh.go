package hub

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"slices"

	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/net/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/sim/sshserver"
)

// newHostKey makes the key of the servers' SSH. The real one is in each home.
func newHostKey() (xssh.Signer, error) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	return xssh.NewSignerFromKey(key)
}

// hasSSH says whether the pod mounts what jupyter-server-proxy starts OpenSSH with.
func hasSSH(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "homelab-ssh" })
}

// keepKey writes a public key that somebody gave with the profile into the home, as the server's configuration does when it starts.
func (h *hub) keepKey(ctx context.Context, pod *corev1.Pod) error {
	env := pod.Spec.Containers[0].Env
	i := slices.IndexFunc(env, func(e corev1.EnvVar) bool { return e.Name == "HOMELAB_SSH_KEY" })
	if i < 0 || !hasSSH(pod) {
		return nil
	}
	key, _, _, _, err := xssh.ParseAuthorizedKey([]byte(env[i].Value))
	if err != nil {
		return err
	}
	folder := homeOf(pod) + "/.ssh"
	_, have, err := h.Exec(ctx, pod, []string{"sh", "-c", "cat " + folder + "/authorized_keys"})
	if err != nil || isAuthorized([]byte(have), key) {
		return err
	}
	_, _, err = h.Exec(ctx, pod, []string{"sh", "-c", "mkdir -p " + folder + " && echo '" + env[i].Value + "' >> " + folder + "/authorized_keys"})
	return err
}

// ssh lets the owners of the keys in the home run commands in the pod, over a websocket as jupyter-server-proxy
// does. There are no shells, terminals, SFTP and forwarding.
func (n *notebook) ssh(w http.ResponseWriter, r *http.Request) {
	pod, err := n.Client.CoreV1().Pods(n.hubNamespace()).Get(r.Context(), n.pod, metav1.GetOptions{})
	if err != nil || !hasSSH(pod) {
		hubError(w, http.StatusNotFound, "No such thing in this server: %s", r.URL.Path)
		return
	}
	server := &sshserver.Server{
		HostKey: n.hostKey,
		Authorize: func(_ string, key xssh.PublicKey) error {
			_, text, err := n.Exec(r.Context(), pod, []string{"sh", "-c", "cat " + homeOf(pod) + "/.ssh/authorized_keys"})
			if err == nil && !isAuthorized([]byte(text), key) {
				err = errors.New("the key is not in ~/.ssh/authorized_keys")
			}
			return err
		},
		Exec: func(ctx context.Context, _, command string, _ io.Reader, stdout, stderr io.Writer) int {
			code, out, err := n.Exec(ctx, pod, []string{"sh", "-c", "cd " + homeOf(pod) + " 2>/dev/null\n" + command})
			if err != nil {
				_, _ = io.WriteString(stderr, err.Error()+"\n")
				return 255
			}
			_, _ = io.WriteString(stdout, out)
			return code
		},
	}
	websocket.Server{Handler: func(ws *websocket.Conn) {
		ws.PayloadType = websocket.BinaryFrame
		server.ServeConn(r.Context(), ws)
	}}.ServeHTTP(w, r)
}

func isAuthorized(file []byte, key xssh.PublicKey) bool {
	for len(file) > 0 {
		known, _, _, rest, err := xssh.ParseAuthorizedKey(file)
		if err != nil {
			return false
		}
		if string(known.Marshal()) == string(key.Marshal()) {
			return true
		}
		file = rest
	}
	return false
}

// showToken explains tokens; JupyterHub lists a user's there, too.
func (h pages) showToken(w http.ResponseWriter, _ *http.Request, user string) {
	h.tokenPage(w, user, "")
}

// makeToken makes a token of the user's and shows it, once.
func (h pages) makeToken(w http.ResponseWriter, _ *http.Request, user string) {
	token := rand.Text()
	h.mu.Lock()
	h.userTokens[token] = user
	h.mu.Unlock()
	h.tokenPage(w, user, token)
}

func (h pages) tokenPage(w http.ResponseWriter, user, token string) {
	h.show(w, http.StatusOK, "token", struct {
		view
		Token string
	}{view{Title: "Tokens", User: user}, token})
}
