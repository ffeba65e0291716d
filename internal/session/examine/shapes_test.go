package examine

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
		"no passwd password=" + canary, "--token --password=" + canary, "tokenFile=password=" + canary, "a secret token: " + canary, "password: -" + canary,
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

// The values of a Secret are known by the object they stand in, whatever their names.
func TestSecretsAreObjects(t *testing.T) {
	const canary = "Canary7731x"
	packed := base64.StdEncoding.EncodeToString([]byte(canary))
	block := "apiVersion: v1\ndata:\n  a: " + packed + "\n  b: |\n    " + packed + "\n    " + packed + "\nkind: Secret\nmetadata:\n  name: x\ntype: Opaque\n"
	text := "apiVersion: v1\nkind: Secret # y\nmetadata:\n  name: x\nstringData:\n  conf: >-\n\n    " + canary + "\n  \"b\": 'it''s " + canary + "'\n"
	object := `{"apiVersion":"v1","data":{"a":"` + packed + `","b":"` + packed + `"},"kind":"Secret","metadata":{"name":"x"}}`
	var pretty strings.Builder
	{
		var v any
		require.NoError(t, json.Unmarshal([]byte(object), &v))
		e := json.NewEncoder(&pretty)
		e.SetIndent("", "  ")
		require.NoError(t, e.Encode(v))
	}
	indented := func(s, by string) string {
		return by + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n"+by) + "\n"
	}
	listed := func(s string) string { return "- " + strings.TrimPrefix(indented(s, "  "), "  ") }
	helm := "H4sI" + strings.Repeat(packed, 4)
	shapes := map[string]string{
		"block": block, "text": text, "object": object, "pretty": pretty.String(),
		"documents":    "kind: ConfigMap\ndata:\n  seen: word\n---\n" + block + "---\n" + text,
		"list":         "apiVersion: v1\nitems:\n" + listed(block) + listed(text) + "kind: List\n",
		"deeper":       "items:\n" + indented(listed(block), "  "),
		"data first":   "- data:\n    a: " + packed + "\n  kind: Secret\n",
		"in a file":    "write_files:\n  - path: /x\n    content: |\n" + indented(text, "      "),
		"braces":       "{apiVersion: v1, kind: Secret, stringData: {a: " + canary + ", b: 'x " + canary + "'}}",
		"braces below": "kind: Secret\ndata: {a: " + packed + "}\n", "braces of lines": "kind: Secret\ndata: {\n  a: " + packed + ",\n  b: " + packed + "\n}\n",
		"JSON list":       `{"kind":"List","items":[` + object + `,` + object + `]}`,
		"no kind":         `{"kind":"SecretList","items":[{"data":{"a":"` + packed + `"},"metadata":{"name":"x"}}]}`,
		"a patch":         `error when applying patch:` + "\n" + `{"data":{"a":"` + packed + `"}}` + "\nto:\nResource: \"/v1, Resource=secrets\"\n",
		"a text patch":    `{"stringData":{"a":"` + canary + ` more"}}`,
		"applied":         "metadata:\n  annotations:\n    kubectl.kubernetes.io/last-applied-configuration: |\n      " + object + "\n",
		"applied, quoted": "    last-applied-configuration: '" + object + "'\n", "applied, escaped": "    last-applied-configuration: " + strconv.Quote(object) + "\n",
		"applied in JSON": `{"kind":"ConfigMap","metadata":{"annotations":{"last-applied-configuration":` + strconv.Quote(object+"\n") + `}}}`,
		"YAML in JSON":    `{"manifest":` + strconv.Quote(text) + `}`,
		"a line of a log": `time="2026-01-02" level=info msg="apply {\"kind\":\"Secret\",\"data\":{\"a\":\"` + packed + `\"}}"`,
		"a klog line":     `I0102 03:04:05 1 x.go:1] don't {"kind":"Secret","data":{"a":"` + packed + `"}} (it's done`,
		"unbalanced":      "a { b [ c\n" + object,
		"a journal":       indented(block, "Nov 25 10:00:00 srv k3s[812]: "),
		"cut off behind":  object[:strings.Index(object, `","b"`)], "cut in a value": object[:strings.Index(object, `","b"`)-2],
		"cut off before":   "@@ cloud-init\n" + block[strings.Index(block, "  a:"):],
		"without its end":  "apiVersion: v1\ndata:\n  a: " + packed + "\n",
		"a release":        "data:\n  release: " + helm + "\nkind: ConfigMap\n",
		"a packed release": "release: " + base64.StdEncoding.EncodeToString([]byte(helm)),
		"Go":               `&v1.Secret{Data:map[string][]uint8{"a":[]uint8{0x61} ` + packed + `}`,
		"numbers":          `{"kind":"Secret","stringData":{"n":77310077310}, "data":{"a":[{"b":"` + packed + `"}]}}`,
		"Windows":          strings.ReplaceAll(block, "\n", "\r\n"),
		"a comment":        "kind: Secret\ndata:\n  # was " + packed + "\n  a: " + packed + " # " + packed + "\n",
		"a difference":     "+kind: Secret\n+data:\n+  a: " + packed + "\n",
	}
	r := newRedactor(nil)
	for name, shape := range shapes {
		for _, ending := range []string{"", "\nnode wk-1 is Ready\n"} {
			out := r.redact(shape + ending)
			for _, secret := range []string{canary, packed, packed[:10], "77310077310"} {
				assert.NotContains(t, out, secret, "%s:\n%s\n%s", name, shape, out)
			}
			assert.True(t, strings.HasSuffix(out, ending), "%s: %s", name, out)
		}
	}
	for _, text := range []string{
		"apiVersion: v1\nkind: ConfigMap\ndata:\n  a: word\nmetadata:\n  name: x\n", `{"kind":"ConfigMap","data":{"a":"word"}}`, "data: 3 blocks of 8\n",
		`{"data":{"upid":"UPID:pve1:0001:qmstart:101:root@pam:"}}`, "kind: Secret\nmetadata:\n  name: x\n", "spec:\n  data:\n    path: /srv\n  kind: Folder\n",
		`{"kind":"ExternalSecret","spec":{"data":[{"remoteRef":{"key":"abcd"}}]}}`, "items:\n- data:\n    a: word\n  kind: ConfigMap\n- kind: Secret\n  metadata: {}\n",
		"don't [x] {y: it's}, data: \"z\"", "data: [1, 2]\n", "sda 8:0 [data] {", `"data`, "'", "{", "}",
	} {
		assert.Equal(t, text, r.redact(text), "it is readable")
	}
	assert.Contains(t, r.redact(block), "data:\n  a: [secret]\n  b: [secret]\nkind: Secret\nmetadata:\n  name: x\n")
	assert.Equal(t, strings.ReplaceAll(object, packed, "[secret]"), r.redact(object), "its names stay")
}

// A machine may say what it wants: a text of eight times the length takes about eight times as long, and not 64 times.
func TestRedactionIsLinear(t *testing.T) {
	r := newRedactor(nil)
	took := func(text string) time.Duration {
		start := time.Now()
		r.redact(text)
		return time.Since(start)
	}
	for _, piece := range []string{"data:\n", "{", "[{\"data\":", "data: {\n", "- ", "kind: Secret\n", "\"\\", "'", "data:\n  a: b\n", "{\"a\":\"", " data:\n", "a: {data: {"} {
		const short = 1 << 12
		text, long := strings.Repeat(piece, short/len(piece)), strings.Repeat(piece, 8*short/len(piece))
		once := min(took(text), took(text), took(text))
		least := took(long)
		for n := 1; n < 20 && least/once >= 32; n++ { // on a busy machine a short text is rarely interrupted, and a long one often
			least = min(least, took(long))
		}
		assert.Less(t, least/once, time.Duration(32), "%q", piece)
	}
}
