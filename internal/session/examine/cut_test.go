package examine

import (
	"encoding/base64"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A Secret that is cut off anywhere, as logs and buffers cut, gives nothing away, and neither does one between other objects.
func TestSecretsThatAreCutOff(t *testing.T) {
	value := base64.StdEncoding.EncodeToString([]byte("a long secret value, with words"))
	object := `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"},"data":{"a":"` + value + `","b-\"c\"":"` + value + `"}}`
	r := newRedactor(nil)
	for name, shape := range map[string]string{
		"object": object, "escaped": "applied: " + strconv.Quote(object) + "\n", "single": "applied: '" + strings.ReplaceAll(object, "'", "''") + "'\n",
		"block":     "apiVersion: v1\nkind: Secret\nmetadata:\n  name: x\ndata:\n  a: " + value + "\n  b: " + value + "\n",
		"flow":      "{kind: Secret, data: {'it''s': " + value + ", b: \"" + value + "\"}}",
		"list":      `[{"kind":"ConfigMap","data":{"a":"word"}},` + object + `,` + object + `,{"kind":"ConfigMap","data":{"b":"word"}}]`,
		"kind last": `{"data":{"a":"` + value + `"},"kind":"Secret"}`,
		"items":     "items:\n- data:\n    a: word\n  kind: ConfigMap\n- data:\n    a: " + value + "\n  kind: Secret\n- kind: Secret\n  stringData:\n    b: '" + value + "'\n",
	} {
		for end := range len(shape) + 1 {
			out := r.redact(shape[:end])
			assert.NotContains(t, out, value[:10], "%s, cut off after %d:\n%s", name, end, out)
		}
		whole := r.redact(shape)
		assert.Equal(t, strings.ReplaceAll(strings.ReplaceAll(shape, value, "[secret]"), "'[secret]'", "[secret]"), strings.ReplaceAll(whole, "'[secret]'", "[secret]"), name)
	}
}

// Spans are put in where they begin; what is inside another is out with it.
func TestReplaceSpans(t *testing.T) {
	for want, spans := range map[string][]span{
		"abcdef": nil, "Xbcdef": {{0, 1, "X"}}, "aXefY": {{6, 6, "Y"}, {1, 4, "X"}}, "aXY": {{4, 6, "Y"}, {1, 4, "X"}}, "aXf": {{1, 5, "X"}, {2, 3, "Y"}, {4, 5, "Z"}},
	} {
		assert.Equal(t, want, replaceSpans("abcdef", spans))
	}
}
