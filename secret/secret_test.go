package secret_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/secret"
)

func ExampleValue() {
	token := secret.New("s3cr3t-t0ken")
	fmt.Println(token)
	fmt.Printf("%+v %q %#v\n", struct{ Token secret.Value }{token}, token, token)
	// Output:
	// [secret]
	// {Token:[secret]} [secret] [secret]
}

func TestValueNeverPrints(t *testing.T) {
	const text = "hunter2-hunter2"
	v := secret.New(text)
	type holder struct {
		Public secret.Value
		hidden secret.Value
	}
	h := holder{Public: v, hidden: v}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "v", v, "h", h)
	js, err := json.Marshal(map[string]any{"v": v, "h": h})
	require.NoError(t, err)
	for _, s := range []string{
		fmt.Sprint(v), fmt.Sprintf("%s %v %+v %#v %q %x %d", v, v, v, v, v, v, v),
		fmt.Sprintf("%v %+v %#v", h, h, h), fmt.Sprintf("%v", &h), log.String(), string(js), v.String(),
	} {
		assert.NotContains(t, s, text)
		assert.NotContains(t, s, fmt.Sprintf("%x", text))
	}
	assert.Equal(t, text, v.Reveal())
	assert.Empty(t, secret.Value{}.Reveal())
	assert.True(t, secret.Value{}.IsZero())
}

func TestFromEnv(t *testing.T) {
	t.Setenv("HOMELAB_TEST_SECRET", "abc")
	v, err := secret.FromEnv("HOMELAB_TEST_SECRET")
	require.NoError(t, err)
	assert.Equal(t, "abc", v.Reveal())
	_, err = secret.FromEnv("HOMELAB_TEST_SECRET_UNSET")
	assert.EqualError(t, err, "environment variable HOMELAB_TEST_SECRET_UNSET is not set: export it, or refer to a file with file:PATH")
}

func TestFromFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	_, err := secret.FromFile(path)
	assert.ErrorContains(t, err, "does not exist")
	require.NoError(t, os.WriteFile(path, []byte("abc\n"), 0o600))
	v, err := secret.FromFile(path)
	require.NoError(t, err)
	assert.Equal(t, "abc", v.Reveal())
	require.NoError(t, os.Chmod(path, 0o644))
	_, err = secret.FromFile(path)
	assert.ErrorContains(t, err, "mode 0644): run chmod 600 "+path)
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, os.WriteFile(path, []byte("\n"), 0o600))
	_, err = secret.FromFile(path)
	assert.ErrorContains(t, err, "is empty")
}

func TestRandomDiffers(t *testing.T) {
	a, b := secret.Random(24), secret.Random(24)
	assert.NotEqual(t, a.Reveal(), b.Reveal())
	assert.Len(t, a.Reveal(), 32)
}

func FuzzRedactor(f *testing.F) {
	f.Add("token-abc", "user:", "@host")
	f.Add("a b/c=d&e", "Authorization: ", "\n")
	f.Fuzz(func(t *testing.T, s, before, after string) {
		if len(s) < 4 || strings.Contains(secret.Mask, s) {
			t.Skip()
		}
		got := secret.NewRedactor(secret.New(s)).Redact(before + s + after)
		// The mask may join with its surroundings into the secret again only if
		// the secret has a piece of the mask in it.
		if !strings.ContainsAny(s, secret.Mask) {
			assert.NotContains(t, got, s)
		}
	})
}

func TestRedactorLongestFirst(t *testing.T) {
	r := secret.NewRedactor(secret.New("abcd"), secret.New("abcd-efgh"), secret.New("x"))
	assert.Equal(t, "[secret] and [secret] x", r.Redact("abcd-efgh and abcd x"))
	r.Add(secret.New("p@ss w"))
	assert.Equal(t, "q=[secret]", r.Redact("q=p%40ss+w"))
}

func TestRedactorKnowsOtherForms(t *testing.T) {
	r := secret.NewRedactor(secret.New(`tok"en<1>`))
	assert.Equal(t, `{"token":"[secret]"}`, r.Redact(`{"token":"tok\"en\u003c1\u003e"}`))
	assert.Equal(t, "data: [secret]", r.Redact("data: "+base64.StdEncoding.EncodeToString([]byte(`tok"en<1>`))))
}
