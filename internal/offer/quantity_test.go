package offer

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Amounts are read as Kubernetes reads them.
func FuzzQuantity(f *testing.F) {
	for _, text := range []string{"", "0", "1", "+1", "-1", "500m", "1.5", "1.", ".5", ".", "2Gi", "1Ki", "3k", "3K", "1E", "1Ei", "1e3", "1E3", "1e-3", "1e+2", "100n", "7u", "1M", "1Mi", "1i", "inf", "0x10", "1_0", " 1", "1 ", "1Gii", "4e"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want := 0.0
		if q, err := resource.ParseQuantity(text); err == nil && q.Sign() > 0 {
			want = q.AsApproximateFloat64()
		}
		if len(text) < 12 && want < 1e15 { // Kubernetes cuts what is larger, and rounds up what is below a billionth
			assert.InDelta(t, want, quantity(text), 1e-9+want*1e-12, text)
		}
	})
}
