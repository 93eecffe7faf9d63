package servers

import "fmt"

// java is a virtual machine that starts quickly and is content with little: made
// for tests, not for benchmarks.
func java(megabytes int, args ...string) command {
	return command{path: "java", args: append([]string{
		fmt.Sprintf("-Xmx%dm", megabytes), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
	}, args...)}
}
