"""The two collective operations that the framework itself needs: a broadcast, and sums over a tree."""
