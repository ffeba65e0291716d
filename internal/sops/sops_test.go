package sops

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// alone keeps the machine's own keys out: a home without any, and the age keys of a file, if
// one is named.
func alone(t *testing.T, keys string) {
	t.Helper()
	home := t.TempDir()
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "GNUPGHOME"} {
		t.Setenv(name, home)
	}
	t.Setenv("SOPS_GPG_EXEC", filepath.Join(home, "no-gpg"))
	for _, name := range []string{"SOPS_AGE_KEY", "SOPS_AGE_KEY_CMD", "SOPS_AGE_KEY_FILE", "SOPS_AGE_SSH_PRIVATE_KEY_FILE", "SOPS_AGE_SSH_PRIVATE_KEY_CMD"} {
		t.Setenv(name, "") // so that it is restored
		require.NoError(t, os.Unsetenv(name))
	}
	if keys != "" {
		t.Setenv("SOPS_AGE_KEY_FILE", keys)
	}
}

func TestRead(t *testing.T) {
	alone(t, "testdata/keys.txt")
	for _, tc := range []struct{ file, path, want string }{
		{"age.yaml", "proxmox.token", "8d0f1c2e-token"},
		{"age.yaml", "tls.key", "-----BEGIN KEY-----\nabc\n-----END KEY-----"},
		{"age.yaml", "users.0.password", "lovelace"},
		{"age.yaml", "users.1.name", "bob"},
		{"age.yaml", "also.x", "one"},
		{"two.yaml", "token", "first"},
		{"only.yaml", "data.password", "hunter2"},
		{"age.json", "db.url", "postgresql://u:p@h/n"},
		{"age.json", "l.1.b", "c"},
		{"age.env", "TOKEN", "abc=def"},
		{"key.pem", "data", "raw bytes"},
	} {
		t.Run(tc.file+"#"+tc.path, func(t *testing.T) {
			got, err := Read("testdata/"+tc.file, tc.path)
			require.NoError(t, err)
			assert.Equal(t, tc.want, got.Reveal())
		})
	}
}

// Keys are found in each of the places that sops looks in.
func TestWhereKeysAre(t *testing.T) {
	keys, err := os.ReadFile("testdata/keys.txt")
	require.NoError(t, err)
	other, err := os.ReadFile("testdata/other-keys.txt")
	require.NoError(t, err)
	for name, set := range map[string]func(t *testing.T){
		"SOPS_AGE_KEY": func(t *testing.T) { t.Setenv("SOPS_AGE_KEY", string(keys)) },
		"keys.txt": func(t *testing.T) {
			dir := filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "sops", "age")
			require.NoError(t, os.MkdirAll(dir, 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "keys.txt"), keys, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			alone(t, "")
			set(t)
			got, err := Read("testdata/age.yaml", "proxmox.token")
			require.NoError(t, err)
			assert.Equal(t, "8d0f1c2e-token", got.Reveal())
		})
	}
	t.Run("GnuPG", func(t *testing.T) {
		alone(t, "")
		t.Setenv("GNUPGHOME", "testdata/gnupg")
		got, err := Read("testdata/pgp.yaml", "users.1.password")
		require.NoError(t, err)
		assert.Equal(t, "s3cret", got.Reveal())
	})
	t.Run("two groups", func(t *testing.T) {
		for _, file := range []string{"groups.yaml#token", "groups.env#TOKEN"} {
			name, path, _ := strings.Cut(file, "#")
			alone(t, "testdata/keys.txt")
			_, err := Read("testdata/"+name, path)
			require.ErrorIs(t, err, ErrKey)
			require.ErrorContains(t, err, "2 of its 2 groups of keys are needed")
			t.Setenv("SOPS_AGE_KEY", string(other))
			got, err := Read("testdata/"+name, path)
			require.NoError(t, err, file)
			assert.Equal(t, "shared", got.Reveal())
		}
	})
}

func TestReadRefuses(t *testing.T) {
	const cut = "data:HOXJ5FnMKx7zqXLwMOw="
	dir := t.TempDir()
	made := 0
	altered := func(name, old, becomes string) string {
		t.Helper()
		made++
		b, err := os.ReadFile("testdata/" + name)
		require.NoError(t, err)
		require.Contains(t, string(b), old)
		file := filepath.Join(dir, strconv.Itoa(made)+"-"+name)
		require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(b), old, becomes, 1)), 0o600))
		return file
	}
	written := func(name, text string) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	for name, tc := range map[string]struct {
		file, path string
		is         error
		want       []string
	}{
		"no file":          {filepath.Join(dir, "none.yaml"), "a", os.ErrNotExist, []string{"none.yaml does not exist"}},
		"not encrypted":    {written("plain.yaml", "a: b\n"), "a", ErrNotEncrypted, []string{"run sops encrypt -i "}},
		"not a mapping":    {written("list.yaml", "- a\n"), "a", nil, []string{"the document is not a mapping"}},
		"empty":            {written("empty.yaml", ""), "a", ErrNotEncrypted, nil},
		"plain dotenv":     {written("plain.env", "A=b\n"), "A", ErrNotEncrypted, nil},
		"not dotenv":       {written("not.env", "hello\n"), "A", nil, []string{"line 1 is not KEY=value"}},
		"not JSON":         {written("not.json", "hello\n"), "A", nil, []string{"not JSON"}},
		"a near path":      {"testdata/age.yaml", "proxmox.tokn", ErrPath, []string{`there is no key "tokn": did you mean "token"?`}},
		"a far path":       {"testdata/only.yaml", "zzz", ErrPath, []string{"the file has apiVersion, data, size, when"}},
		"below a value":    {"testdata/age.yaml", "proxmox.token.x", ErrPath, []string{"nothing is below proxmox.token"}},
		"beyond a list":    {"testdata/age.yaml", "users.2.name", ErrPath, []string{"a list of 2"}},
		"a mapping":        {"testdata/age.yaml", "proxmox", ErrPath, []string{"a mapping stands there, not a string"}},
		"a number":         {"testdata/age.yaml", "proxmox.port", ErrPath, []string{"a number or date stands there, not a string: put it in quotes"}},
		"nothing":          {"testdata/age.yaml", "proxmox.nothing", ErrPath, []string{"nothing stands there"}},
		"an empty string":  {"testdata/age.yaml", "proxmox.empty", nil, []string{"is empty there"}},
		"in plain text":    {"testdata/age.yaml", "proxmox.owner_unencrypted", nil, []string{"stands there in plain text"}},
		"a value changed":  {altered("age.yaml", cut, strings.Replace(cut, "HOX", "HOY", 1)), "users.0.name", ErrAltered, []string{"proxmox.token"}},
		"a key renamed":    {altered("age.yaml", "    token: ENC", "    other: ENC"), "users.0.name", ErrAltered, []string{"proxmox.other", "encrypted for another place"}},
		"a value in plain": {altered("age.yaml", "owner_unencrypted: lab", "owner_unencrypted: you"), "users.0.name", ErrAltered, []string{"sops.mac"}},
		"a value removed":  {altered("age.yaml", `    empty: ""`, `    # gone`), "users.0.name", nil, nil},
		"a plain secret":   {altered("age.yaml", "proxmox:\n", "password: hunter2\nproxmox:\n"), "users.0.name", ErrAltered, []string{"password: not in the form"}},
		"mac of its own":   {altered("age.yaml", "    mac: ENC", "    mac: \"\"\n    old: ENC"), "users.0.name", ErrAltered, []string{"sops.mac"}},
		"time of its own":  {altered("age.yaml", `lastmodified: "2026`, `lastmodified: "2025`), "users.0.name", ErrAltered, nil},
		"no time":          {altered("age.yaml", `lastmodified: "2026`, `lastmodified: "x`), "users.0.name", ErrAltered, nil},
		"rules by comment": {altered("age.yaml", "unencrypted_suffix: _unencrypted", "encrypted_comment_regex: x"), "users.0.name", nil, []string{"choose them by encrypted_regex"}},
		"a bad rule":       {altered("only.yaml", "encrypted_regex: ^(data)$", "encrypted_regex: ^(data$"), "data.password", nil, []string{"sops.encrypted_regex"}},
	} {
		t.Run(name, func(t *testing.T) {
			alone(t, mustAbs(t, "testdata/keys.txt"))
			got, err := Read(tc.file, tc.path)
			if name == "a value removed" { // an empty string adds nothing to the code, in sops too
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			require.ErrorContains(t, err, tc.file)
			assert.True(t, got.IsZero())
			if tc.is != nil {
				require.ErrorIs(t, err, tc.is)
			}
			for _, want := range tc.want {
				require.ErrorContains(t, err, want)
			}
			for _, plain := range []string{"8d0f1c2e", "hunter2", "lovelace"} {
				require.NotContains(t, err.Error(), plain)
			}
		})
	}
}

// A file whose keys are not here says for whom it is encrypted, and where keys are looked for.
func TestNoKey(t *testing.T) {
	alone(t, "")
	_, err := Read("testdata/age.yaml", "proxmox.token")
	require.ErrorIs(t, err, ErrKey)
	require.ErrorContains(t, err, "it is encrypted for age1zzpz0gkf62s0exe6and52p4p6nlqv9rpf9g5kgdu8zssp8dtkp6qa3zr67")
	require.ErrorContains(t, err, "SOPS_AGE_KEY_FILE")

	_, err = Read("testdata/pgp.yaml", "proxmox.token")
	require.ErrorContains(t, err, "it is encrypted for PGP FDC5ECF0F22D886FBDB7426941C18ACD521B3CE8")

	t.Setenv("SOPS_AGE_KEY_FILE", "testdata/other-keys.txt")
	_, err = Read("testdata/age.yaml", "proxmox.token")
	require.ErrorIs(t, err, ErrKey)

	b, err := os.ReadFile("testdata/age.yaml")
	require.NoError(t, err)
	before, _, _ := strings.Cut(string(b), "    age:\n")
	cloud := filepath.Join(t.TempDir(), "kms.yaml")
	require.NoError(t, os.WriteFile(cloud, []byte(before+"    kms:\n        - arn: arn:aws:kms:eu-1:1:key/a\n          enc: eA==\n    lastmodified: \"2026-11-23T20:14:44Z\"\n"), 0o600))
	_, err = Read(cloud, "proxmox.token")
	require.ErrorContains(t, err, "it is encrypted for AWS KMS arn:aws:kms:eu-1:1:key/a, and only age and PGP keys are used here")
	keyless := filepath.Join(t.TempDir(), "none.yaml")
	require.NoError(t, os.WriteFile(keyless, []byte("a: b\nsops:\n    lastmodified: \"2026-11-23T20:14:44Z\"\n"), 0o600))
	_, err = Read(keyless, "a")
	require.ErrorContains(t, err, "it names no key at all")
}

func TestLargeFilesAreRefused(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for _, c := range "bcdefg" {
		prev := string(c - 1)
		bomb += string(c) + ": &" + string(c) + " [" + strings.TrimSuffix(strings.Repeat("*"+prev+",", 10), ",") + "]\n"
	}
	_, err := fromYAML([]byte(bomb))
	require.ErrorIs(t, err, errLarge)
	_, err = fromJSON([]byte(strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200)))
	require.ErrorIs(t, err, errLarge)
	file := filepath.Join(t.TempDir(), "large.yaml")
	require.NoError(t, os.WriteFile(file, make([]byte, most+1), 0o600))
	_, err = Read(file, "a")
	require.ErrorContains(t, err, "at most 4 MiB are read")
}

// No text makes the readers panic, and none passes the check without its code.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"age.yaml", "age.json", "age.env", "groups.env"} {
		b, err := os.ReadFile("testdata/" + name)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Add([]byte("sops_a__list_1__map_b=c\nsops_lastmodified=2026-11-23T20:14:44Z\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, name := range []string{"a.yaml", "a.json", "a.env"} {
			got, err := parse(name, text)
			if err != nil {
				continue
			}
			_, err = got.decrypt(make([]byte, 32))
			require.Error(t, err)
		}
	})
}

func mustAbs(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	require.NoError(t, err)
	return abs
}
