package realtest

import (
	"slices"
	"testing"
	"time"
)

// ReportTimes has a benchmark tell how long something took: the median, nine in ten, and the slowest.
func ReportTimes(b *testing.B, what string, times []time.Duration) {
	slices.Sort(times)
	for name, one := range map[string]time.Duration{"median": times[len(times)/2], "90%": times[len(times)*9/10], "slowest": times[len(times)-1]} {
		b.ReportMetric(float64(one.Microseconds())/1000, "ms/"+what+"/"+name)
	}
}
