//! A node of a Tenure cluster: it orders commands by Raft, stamps time on them, and answers those who asked.
