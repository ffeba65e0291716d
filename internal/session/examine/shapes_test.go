package examine

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A secret that nobody knows is known by where it stands.
func TestShapesOfSecrets(t *testing.T) {
	const canary = "Canary7731x"
	r := newRedactor(nil)
	for _, text := range []string{
		"password: " + canary, "secretKey: " + canary, "passphrase: " + canary, "etcd-s3-secret-key: " + canary, "accessKey: " + canary,
		"--token " + canary, "--token=" + canary, "--password '" + canary + " more'", "k3s agent --server x --agent-token " + canary + " --debug",
		"password: \"two words " + canary + "\"", "password: 'it is " + canary + "'", `{"clientSecret": "a \"b\" ` + canary + `"}`, `{"token":"` + canary + `"}`,
		"PASSWORD=" + canary, "export DB_PASSWORD=" + canary, "pwd=" + canary, "api_key = " + canary, "Authorization: " + canary, "Cookie: " + canary,
		"https://user:p@" + canary + "@host/x", "https://user:" + canary + "@host/x", "postgres://u:" + canary + "@h:5432/d",
		"password: |\n  " + canary + "\n  second " + canary + "\nnext: line", "  secret: >-\n    " + canary + "\n", "- token: |\n    " + canary + "\n",
		"-----BEGIN OPENSSH PRIVATE KEY-----\n" + canary + "\n-----END OPENSSH PRIVATE KEY-----", "Authorization: Bearer " + canary + canary,
		"client-key-data: " + canary, "wireguard-psk: " + canary, "signingKey: " + canary, "credentials: " + canary,
	} {
		assert.NotContains(t, r.redact(text), canary, text)
	}
	for _, text := range []string{
		"secretName: rancher-tls", "token is unknown, expired or disabled", "secret: env:PROXMOX_TOKEN_SECRET", "tokenID: homelab@pve!x", "the token homelab@pve!x lacks Sys.Modify",
		"password: file:/etc/x", "kubectl -n x create secret tls y", "passed 8 of 8", "https://10.0.0.1:8006/api2/json", "next: line", "secretKeyRef: {name: x}", "tokens: 3",
	} {
		assert.Equal(t, text, r.redact(text), "it is readable")
	}
}
