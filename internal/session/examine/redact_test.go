package examine

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/secret"
)

func TestRedact(t *testing.T) {
	r := newRedactor(secret.NewRedactor(secret.New("correct-horse")))
	for _, tc := range [][2]string{
		{"the token is correct-horse!", "the token is [secret]!"},
		{"K10" + strings.Repeat("ab", 32) + "::server:0123456789abcdef", "[secret]"},
		{"join with abcdef.0123456789abcdef now", "join with [secret] now"},
		{"Authorization: Bearer abcdefgh.ijk", "Authorization: [secret]"},
		{"PVEAPIToken=me@pve!x=00000000-0000-4000-8000-000000000000", "[secret]"},
		{"-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----\nrest", "[secret]\nrest"},
		{"-----BEGIN EC PRIVATE KEY-----\ncut off", "[secret]"},
		{"https://teacher:lovelace@git.example/x", "https://teacher:[secret]@git.example/x"},
		{"hash: $6$rounds$abcdefghijklmnopqrstuvwxyz", "hash: [secret]"},
		{`"password": "hunter22",`, `"password": "[secret]",`},
		{"agent-token: hunter22", "agent-token: [secret]"},
		{"secret: env:PVE_TOKEN", "secret: env:PVE_TOKEN"},
		{"token-file: /etc/rancher/k3s/token", "token-file: /etc/rancher/k3s/token"},
		{"wk-gpu1 10.0.0.21 Ready", "wk-gpu1 10.0.0.21 Ready"},
		{"node/wk-gpu1 nvidia.com/gpu.present=true", "node/wk-gpu1 nvidia.com/gpu.present=true"},
	} {
		assert.Equal(t, tc[1], r.redact(tc[0]))
	}
}

func FuzzRedact(f *testing.F) {
	r := newRedactor(nil)
	for _, text := range []string{"password: hunter22 K10", "pAsswd", "--token", "secret-file=", "data: {a", "kind: Secret\ndata:\n  a: b\n", `{"kind":"Secret","data":{"a":"`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		once := r.redact(text + " password=S3CRETVALUE ")
		if strings.Contains(once, "S3CRETVALUE") {
			t.Errorf("%q", once)
		}
	})
}
