# Scores by R's BradleyTerry2 of data sets that come with it (GPL-2 | GPL-3; facts of matches and votes); writes
# bradley_terry2.csv, and games.csv with the matches that are too many to type in.
# Debian 12: apt-get install r-cran-bradleyterry2 (1.1-2); Rscript tests/reference/bradley_terry2.R
suppressMessages(library(BradleyTerry2))
folder <- dirname(sub("--file=", "", grep("--file=", commandArgs(), value = TRUE)))
write <- function(table, name) write.csv(table, file.path(folder, name), row.names = FALSE, quote = FALSE)
scores <- function(set, model) {
  found <- BTabilities(model)[, "ability"]
  data.frame(set, item = names(found), score = signif(found - mean(found), 8), row.names = NULL)
}

# Premier League 2008-9, with home advantage; draws count as half a win.
season <- droplevels(subset(football, season == "2008-9"))
played <- BTm(
  (season$result + 1) / 2, data.frame(team = season$home, at.home = 1), data.frame(team = season$away, at.home = 0),
  ~ team + at.home, id = "team"
)
league <- rbind(scores("football", played), data.frame(
  set = "football", item = "at.home", score = signif(coef(played)[["at.home"]], 8)
))
# College hockey 2009-10, the first model of the help page; names cut to four letters.
for (side in c("visitor", "opponent")) levels(icehockey[[side]]) <- abbreviate(levels(icehockey[[side]]), 4)
hockey <- BTm(result, visitor, opponent, id = "team", data = icehockey)
# Management schools, the first model of the help page.
schools <- BTm(cbind(win1.adj, win2.adj), school1, school2, ~ .., refcat = "Stockholm", data = CEMS)
# Six chameleons: the largest group without one that beats, or loses to, all others.
group <- c("C05", "C12", "C14", "C17", "C20", "C26")
fights <- data.frame(winner = chameleons$winner$ID, loser = chameleons$loser$ID)
inside <- droplevels(subset(fights, winner %in% group & loser %in% group))
inside[] <- lapply(inside, factor, levels = group)
six <- BTm(1, winner, loser, ~ ID, id = "ID", data = inside)

write(rbind(
  league, scores("icehockey", hockey), scores("CEMS", schools), scores("chameleons", six)
), "bradley_terry2.csv")
write(rbind(
  data.frame(set = "football", first = season$home, second = season$away, result = season$result),
  data.frame(set = "icehockey", first = icehockey$visitor, second = icehockey$opponent, result = icehockey$result),
  data.frame(set = "chameleons", first = fights$winner, second = fights$loser, result = 1)
), "games.csv")
