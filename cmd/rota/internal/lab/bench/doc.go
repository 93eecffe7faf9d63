// Package bench compares ways to place partitions by their speed: Pack of
// internal/pack, and the twelve algorithms of the papers it wants to be ahead
// of. It plays the papers' experiment and measures by their measures. Nothing
// here decides anything for a real group.
package bench
