# All-pairs and many-to-one tests by R's multcomp on a given estimate and covariance; writes multcomp.csv beside it.
# Debian 12: apt-get install r-cran-multcomp (multcomp 1.4-22); Rscript tests/reference/multcomp.R
suppressMessages(library(multcomp))
folder <- dirname(sub("--file=", "", grep("--file=", commandArgs(), value = TRUE)))
k <- 5
estimate <- setNames(c(0.55, 0.31, 0.22, -0.4, -0.68), letters[1:k])
root <- outer(1:k, 1:k, function(i, j) cos(i * j) / (3 + i))
covariance <- (root %*% t(root) + diag(0.02 * (1:k))) / 2
model <- parm(estimate, covariance)
rows <- list()
add <- function(family, type, matrix, alternative) {
  g <- glht(model, linfct = matrix, alternative = alternative)
  set.seed(1)
  p <- summary(g, test = adjusted(type, maxpts = 1e6, abseps = 2e-5))$test$pvalues
  limits <- confint(g, calpha = adjusted_calpha(maxpts = 1e6, abseps = 2e-5))$confint
  rows[[length(rows) + 1]] <<- data.frame(
    family, type, alternative, contrast = rownames(matrix), p = as.numeric(p),
    low = limits[, "lwr"], high = limits[, "upr"], row.names = NULL
  )
}
n <- setNames(rep(10, k), letters[1:k])
pairs <- contrMat(n, "Tukey")
control <- contrMat(n, "Dunnett", base = 3)
for (type in c("single-step", "free", "holm", "BH")) add("pairs", type, pairs, "two.sided")
for (alternative in c("two.sided", "greater", "less"))
  for (type in c("single-step", "free")) add("against c", type, control, alternative)
table <- do.call(rbind, rows)
write.csv(format(table, digits = 8, trim = TRUE), file.path(folder, "multcomp.csv"), row.names = FALSE, quote = FALSE)
